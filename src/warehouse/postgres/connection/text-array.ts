const TEXT = 25;
/** Dimensions, nulls, type of the elements, how many, the number of the first. */
const HEADER_BYTES = 20;
const LENGTH_BYTES = 4;
/** Bytes of UTF-8 per UTF-16 unit at most. */
const UNIT_BYTES = 3;

/** Texts as a value for a `text[]`, in the binary format: the text format quotes each, and is read sign by sign. */
export function textArray(texts: readonly string[]): Buffer {
  const most = texts.reduce((sum, { length }) => sum + LENGTH_BYTES + length * UNIT_BYTES, HEADER_BYTES);
  const bytes = Buffer.allocUnsafe(most);
  let end = 0;
  for (const number of [1, 0, TEXT, texts.length, 1]) end = bytes.writeInt32BE(number, end);
  for (const text of texts) {
    const written = bytes.write(text, end + LENGTH_BYTES);
    end = bytes.writeInt32BE(written, end) + written;
  }
  return bytes.subarray(0, end);
}
