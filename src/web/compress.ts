import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type { PageAnswer, PageRequest } from './page-request.ts';

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

/** The answer as its reader takes it (RFC 9110, 12.5.3); short ones stay as they are. */
export async function compressed(answer: PageAnswer, headers: PageRequest['headers']): Promise<PageAnswer> {
  const { body } = answer;
  if (typeof body !== 'string' || body.length < LEAST_BYTES) return answer;
  const varied = { ...answer, headers: { ...answer.headers, vary: 'accept-encoding' } };
  const taken = codingsOf(headers['accept-encoding']);
  const [name, compress] = CODINGS.find(([coding]) => taken.get(coding) ?? taken.get('*') ?? false) ?? [];
  if (name === undefined || compress === undefined) return varied;
  return { ...varied, headers: { ...varied.headers, 'content-encoding': name }, body: await compress(body) };
}

/** By name, whether it is taken: a weight of 0 refuses it. */
function codingsOf(header: PageRequest['headers'][string]): ReadonlyMap<string, boolean> {
  const entries = (typeof header === 'string' ? header : '').toLowerCase().split(',');
  return new Map(
    entries.map((entry) => {
      const [name = '', ...parameters] = entry.split(';').map((piece) => piece.trim());
      return [name, !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter))];
    }),
  );
}
