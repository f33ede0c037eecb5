import type { AnswerHeaders } from '../outcome/outcome-table.ts';

/** What proves that the rest of a file belongs to what is here of it. */
export interface Validator {
  /** A strong entity tag, quoted (RFC 9110, 8.8.3). */
  etag: string;
  /** Bytes of the whole file; null if no answer has told. */
  total: number | null;
}

/** What is here of a file, from an attempt before this one. */
export interface Begun {
  bytes: number;
  /** Null if nothing proves that a rest would belong to it. */
  validator: Validator | null;
}

/** A stored content, as a conditional request names it. */
export interface Stored {
  etag: string | null;
  lastModified: string | null;
}

/** The condition of a request: the rest of what has begun, or whatever is not what is stored. */
export function conditionalHeaders({ bytes, validator }: Begun, stored: Stored): Record<string, string> {
  if (bytes > 0 && validator !== null) {
    // All of it is here, and the end was not told: it is only asked whether it still is the file.
    if (bytes === validator.total) return { 'if-none-match': validator.etag };
    return { range: `bytes=${bytes}-`, 'if-range': validator.etag };
  }
  if (stored.etag !== null) return { 'if-none-match': stored.etag };
  return stored.lastModified === null ? {} : { 'if-modified-since': stored.lastModified };
}

/** The validator of a whole answer; null unless it has a strong one, and if it is encoded: ranges count other bytes then. */
export function validatorOf(headers: AnswerHeaders, total: number | null): Validator | null {
  const etag = headerText(headers, 'etag');
  return etag !== null && /^"[\x21\x23-\x7e\x80-\xff]*"$/.test(etag) ? { etag, total } : null;
}

/** Why a 206 is not the rest that was asked for; null if it is. */
export function rangeFault(headers: AnswerHeaders, { bytes, validator }: Begun): string | null {
  if (bytes === 0 || validator === null) return 'a part of the file, which was not asked for';
  const [, first, last, total] =
    /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15}|\*)$/i.exec(headerText(headers, 'content-range') ?? '') ?? [];
  if (first === undefined) return 'a part of the file that does not say which one';
  if (Number(first) !== bytes) return `a part from byte ${first} on, asked for from byte ${bytes} on`;
  if (headerText(headers, 'etag') !== validator.etag) return 'a part of another version of the file';
  const whole = total === '*' ? validator.total : Number(total);
  if (whole !== null && Number(last) !== whole - 1) return `a part up to byte ${last} of ${whole}`;
  return validator.total !== null && whole !== validator.total ? 'a part of a file of another size' : null;
}

/** Bytes of the whole file that a part belongs to; null if it does not tell. */
export function partTotal(headers: AnswerHeaders): number | null {
  const [, total] = /\/(\d{1,15})$/.exec(headerText(headers, 'content-range') ?? '') ?? [];
  return total === undefined ? null : Number(total);
}

/** Bytes that an answer's body has, by its header; null if it does not tell. */
export function contentLength(headers: AnswerHeaders): number | null {
  const text = headerText(headers, 'content-length') ?? '';
  return /^\d{1,15}$/.test(text) ? Number(text) : null;
}

/** A header that may stand there once; null if it is absent, or repeated with different values. */
export function headerText(headers: AnswerHeaders, name: string): string | null {
  const values = new Set([headers[name] ?? []].flat());
  const [only = null] = values;
  return values.size === 1 ? only : null;
}
