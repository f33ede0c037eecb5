import { createHmac, timingSafeEqual } from 'node:crypto';
import { RefusedRequest, nothing, type Answer, type ApiRequest } from './answer.ts';
import { bytesOf, stampFor } from './record-routes.ts';
import { sha256 } from '../../../src/sandbox/records/image-files.ts';
import { recordIn } from '../../../src/sandbox/records/record-changes.ts';
import type { Handler, Service } from './route-context.ts';

/** GET /v1/images/{id}/file: the bytes, or the way to a signed address of them. */
export const readFile: Handler = (service, request) => {
  const { id } = imageOf(service, request.params);
  const { signedFiles } = service.settings;
  if (signedFiles === null) return answerFile(service, id, request);
  const location = signedAddress(service, request.url, id, signedFiles);
  return { status: 302, headers: { location, 'cache-control': 'no-store' }, body: Buffer.alloc(0) };
};

/** GET /files/{id}?expires&signature: the bytes for who has the address, without a credential; 403 once it has run out. */
export const readSignedFile: Handler = (service, request) => {
  const { id = '' } = request.params;
  const { searchParams } = request.url;
  const expires = searchParams.get('expires') ?? '';
  const given = Buffer.from(searchParams.get('signature') ?? '');
  const right = Buffer.from(signatureOf(service, id, expires));
  if (given.length !== right.length || !timingSafeEqual(given, right)) {
    throw new RefusedRequest(403, 'The signature of the address is not right.');
  }
  if (service.clock.now() >= Number(expires)) throw new RefusedRequest(403, 'Request has expired');
  return answerFile(service, id, request);
};

/** The same server by its other name, which is another origin. */
function signedAddress(service: Service, asked: URL, id: string, holdsMs: number): string {
  const expires = String(service.clock.now() + holdsMs);
  const address = new URL(`/files/${encodeURIComponent(id)}`, asked);
  address.hostname = asked.hostname === 'localhost' ? '127.0.0.1' : 'localhost';
  address.searchParams.set('expires', expires);
  address.searchParams.set('signature', signatureOf(service, id, expires));
  return address.href;
}

function signatureOf(service: Service, id: string, expires: string): string {
  return createHmac('sha256', service.access.signingKey).update(`${id} ${expires}`).digest('hex');
}

/** With an ETag; 304 if the client has them, 206 for one part (RFC 9110, 14). */
function answerFile(service: Service, id: string, { headers }: ApiRequest): Answer {
  const { record } = imageOf(service, { id });
  const body = service.store.files.get(id);
  if (body === null) throw new RefusedRequest(404, `The image "${id}" has no file.`);
  const etag = `"${sha256(body)}"`;
  if (headers['if-none-match']?.includes(etag) === true) return { ...nothing(), status: 304, headers: { etag } };
  const type = record['mime_type'];
  const told = { 'content-type': typeof type === 'string' ? type : 'application/octet-stream', etag };
  const whole: Answer = { status: 200, body, headers: { ...told, 'accept-ranges': 'bytes' } };
  const condition = headers['if-range'];
  const range = condition === undefined || condition === etag ? headers.range : undefined;
  return range === undefined ? whole : partOf(whole, range);
}

/** What is no single part that begins at a number is answered whole, as a server may. */
function partOf(whole: Answer, range: string): Answer {
  const [, first, last] = /^bytes=(\d{1,15})-(\d{1,15})?$/.exec(range) ?? [];
  const { length } = whole.body;
  if (first === undefined || (last !== undefined && Number(last) < Number(first))) return whole;
  const from = Number(first);
  if (from >= length) throw new RefusedRequest(416, 'There is no such part.', { 'content-range': `bytes */${length}` });
  const end = last === undefined ? length : Math.min(Number(last) + 1, length);
  const headers = { ...whole.headers, 'content-range': `bytes ${from}-${end - 1}/${length}` };
  return { ...whole, status: 206, headers, body: whole.body.subarray(from, end) };
}

/** PUT /v1/images/{id}/file: new bytes; also updates the image's record. */
export const writeFile: Handler = async (service, request) => {
  const { id, record } = imageOf(service, request.params);
  const bytes = await request.body();
  const { collection } = bytesOf(service, { resource: 'images', id });
  const stamp = stampFor(service, collection);
  const times = stamp === null ? {} : { updated_at: stamp };
  service.store.files.put(id, bytes);
  service.store.put('images', { ...record, byte_size: bytes.length, sha256: sha256(bytes), has_file: true, ...times });
  return nothing();
};

function imageOf(service: Service, params: Readonly<Record<string, string>>) {
  const { id, bytes } = bytesOf(service, { ...params, resource: 'images' });
  return { id, record: recordIn(bytes) };
}
