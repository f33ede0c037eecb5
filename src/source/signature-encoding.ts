/** How bytes stand in a text. */
export type TextEncoding = 'hex' | 'base64' | 'base64url';

const LENGTHS: Readonly<Record<TextEncoding, (bytes: number) => number>> = {
  hex: (bytes) => bytes * 2,
  base64: (bytes) => Math.ceil(bytes / 3) * 4,
  base64url: (bytes) => Math.ceil((bytes * 4) / 3),
};

/**
 * The bytes of a text of exactly `length` bytes, or null where it is not written in the one canonical way: hex in lower
 * case, base64 padded, base64url not padded, nothing before, after or in between. Node's own decoder takes
 * `<good>=!!!!`, `abzz` and a base64url text for base64 without a word.
 */
export function decodeStrictly(text: string, encoding: TextEncoding, length: number): Buffer | null {
  if (text.length !== LENGTHS[encoding](length)) return null;
  const bytes = Buffer.from(text, encoding);
  // Writing it again also finds bits of the last character that belong to no byte.
  return bytes.length === length && bytes.toString(encoding) === text ? bytes : null;
}
