/** A part of a content. */
export interface ByteRange {
  from: number;
  /** How many; at least 1, unless the content is empty. */
  bytes: number;
}

const ONE_RANGE = /^bytes=(?:(\d{1,15})-(\d{1,15})?|-(\d{1,15}))$/;

/**
 * The part of a content of `length` bytes that a Range header asks for. `none`: all of it, because nothing, several
 * parts or something else is asked for, which a server may do without. `unmet`: there is no such part (416).
 */
export function parseByteRange(header: string, length: number): ByteRange | 'none' | 'unmet' {
  const [found, first, last, ending] = ONE_RANGE.exec(header.replaceAll(/[ \t]/g, '')) ?? [];
  if (found === undefined) return 'none';
  if (ending !== undefined) return endOf(Number(ending), length);
  const from = Number(first);
  const to = last === undefined ? length - 1 : Math.min(Number(last), length - 1);
  if (last !== undefined && Number(last) < from) return 'none';
  return from >= length ? 'unmet' : { from, bytes: to - from + 1 };
}

function endOf(count: number, length: number): ByteRange | 'unmet' {
  const bytes = Math.min(count, length);
  return bytes === 0 ? 'unmet' : { from: length - bytes, bytes };
}
