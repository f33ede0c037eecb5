import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

export function jsonResponse(status: number, value: object, indent = 2): Response {
  const headers = { 'content-type': 'application/json; charset=utf-8' };
  return new Response(`${JSON.stringify(value, null, indent)}\n`, { status, headers });
}

export function textResponse(status: number, sentence: string, headers: Record<string, string> = {}): Response {
  return new Response(`${sentence}\n`, {
    status,
    headers: { 'content-type': 'text/plain; charset=utf-8', ...headers },
  });
}

const [brotli, zip] = [promisify(brotliCompress), promisify(gzip)];

/** Smaller ones fit into one packet as they are. */
const LEAST_BYTES = 1_000;
/** A page is made for one reader: little time for nearly all of the gain. */
const QUALITY = 4;

/** Ways to compress, the best one first. */
const CODINGS: readonly (readonly [name: string, compress: (text: string) => Promise<Uint8Array>])[] = [
  ['br', (text) => brotli(text, { params: { [constants.BROTLI_PARAM_QUALITY]: QUALITY } })],
  ['gzip', (text) => zip(text, { level: QUALITY })],
];

/** Compresses the body as the client accepts it (RFC 9110, 12.5.3); short ones and files stay as they are. */
export async function compressResponse(response: Response, acceptEncoding: string): Promise<Response> {
  const { status, headers } = response;
  if (response.body === null || headers.has('content-length')) return response;
  const text = await response.text();
  if (text.length < LEAST_BYTES) return new Response(text, { status, headers });
  headers.set('vary', 'accept-encoding');
  const accepted = acceptedCodings(acceptEncoding);
  const [name, compress] = CODINGS.find(([coding]) => accepted.get(coding) ?? accepted.get('*') ?? false) ?? [];
  if (name === undefined || compress === undefined) return new Response(text, { status, headers });
  headers.set('content-encoding', name);
  return new Response(new Uint8Array(await compress(text)), { status, headers });
}

/** By name, whether it is accepted: a weight of 0 refuses it. */
function acceptedCodings(header: string): ReadonlyMap<string, boolean> {
  const entries = header.toLowerCase().split(',');
  return new Map(
    entries.map((entry) => {
      const [name = '', ...parameters] = entry.split(';').map((piece) => piece.trim());
      return [name, !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter))];
    }),
  );
}
