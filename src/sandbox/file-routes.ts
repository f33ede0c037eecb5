import { RefusedRequest, nothing } from './answer.ts';
import { sha256 } from './records/generated-image.ts';
import { recordIn } from './records/record-changes.ts';
import { bytesOf, stampFor } from './record-routes.ts';
import type { Handler, Service } from './route-context.ts';

/** GET /v1/images/{id}/file: the bytes, with an ETag; 304 where the client has them. */
export const readFile: Handler = (service, request) => {
  const { id, record } = imageOf(service, request.params);
  const body = service.store.files.get(id);
  if (body === null) throw new RefusedRequest(404, `The image "${id}" has no file.`);
  const etag = `"${sha256(body)}"`;
  if (request.headers['if-none-match']?.includes(etag) === true)
    return { ...nothing(), status: 304, headers: { etag } };
  const type = record['mime_type'];
  return {
    status: 200,
    body,
    headers: { 'content-type': typeof type === 'string' ? type : 'application/octet-stream', etag },
  };
};

/** PUT /v1/images/{id}/file: new bytes; the image's record says so. */
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
