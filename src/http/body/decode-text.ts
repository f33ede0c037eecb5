import { constants, isUtf8 } from 'node:buffer';
import { TextDecoder } from 'node:util';
import { SyncError } from '../../model/errors.ts';

/** Made once: creating a decoder costs more than decoding a small page. Fatal: bytes are never changed silently. */
const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Of a longer body no string can be made, which is seen at once. */
const MOST_LAZY = constants.MAX_STRING_LENGTH;

/** Charset labels that are taken, and what decodes them. ASCII is read as UTF-8, of which it is a part. */
const CHARSETS: Readonly<Record<string, string>> = {
  'us-ascii': 'utf-8',
  ascii: 'utf-8',
  'utf-8': 'utf-8',
  utf8: 'utf-8',
  'iso-8859-1': 'latin1',
  latin1: 'latin1',
  'windows-1252': 'latin1',
  'utf-16': 'utf-16',
  'utf-16le': 'utf-16le',
  'utf-16be': 'utf-16be',
};

/** A body as UTF-8 and as a string, neither with a byte order mark. */
export interface DecodedText {
  bytes: Buffer;
  /** Made with its first use. */
  readonly text: string;
}

/**
 * The text of a body, strictly: invalid bytes are an error and a byte order mark is dropped. JSON is UTF-8 unless the
 * Content-Type names another charset. Throws `SyncError` `bad_text` or `unsupported_charset`.
 */
export function decodeText(bytes: Buffer, contentType: string): DecodedText {
  const decoder = decoderFor(bytes, contentType);
  try {
    if (decoder === utf8 && bytes.length <= MOST_LAZY && isUtf8(bytes)) return lazyText(bytes);
    const text = decoder.decode(bytes);
    return { text, bytes: decoder === utf8 ? unmarked(bytes) : Buffer.from(text) };
  } catch (cause) {
    throw new SyncError('bad_text', `the body is not valid ${decoder.encoding}`, { recovery: 'retry', cause });
  }
}

function lazyText(marked: Buffer): DecodedText {
  const bytes = unmarked(marked);
  let text: string | null = null;
  return {
    bytes,
    get text() {
      return (text ??= bytes.toString());
    },
  };
}

function unmarked(bytes: Buffer): Buffer {
  const marked = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  return marked ? bytes.subarray(3) : bytes;
}

function decoderFor(bytes: Uint8Array, contentType: string): TextDecoder {
  const label = /;\s*charset\s*=\s*"?([^";\s]+)/i.exec(contentType)?.[1]?.toLowerCase() ?? 'utf-8';
  const charset = Object.hasOwn(CHARSETS, label) ? CHARSETS[label] : undefined;
  if (charset === undefined) {
    throw new SyncError('unsupported_charset', 'the body is in a charset that is not supported', { recovery: 'stop' });
  }
  if (charset === 'utf-8') return utf8;
  const bigEndian = charset === 'utf-16' && bytes[0] === 0xfe && bytes[1] === 0xff;
  return new TextDecoder(bigEndian ? 'utf-16be' : charset, { fatal: true });
}
