import type { RequestMeter } from '../client.ts';
import { isAdmitted, type FileKind } from './file-kind.ts';

/** One file that is to be fetched. */
export interface DownloadRequest {
  url: URL;
  /** True for an address of the service itself: credential and profile headers go along, also after a redirect. */
  isOwn: (url: URL) => boolean;
  /** Folder for the unfinished file. */
  spool: string;
  /** Safe name for the unfinished file; the rest of a killed download is overwritten. */
  name: string;
  /** Bytes; more are refused. */
  most: number;
  mostPixels: number;
  /** Types that are admitted, such as `image/*`. */
  types: readonly string[];
  /** What the record says of the file. */
  declared: { bytes: number | null; sha256: string | null };
  /** Of the content that is here, for a conditional request; both null to have it in any case. */
  etag: string | null;
  lastModified: string | null;
  meter: RequestMeter;
  signal: AbortSignal;
}

/** What became of a download. */
export type Downloaded =
  | {
      kind: 'fetched';
      path: string;
      sha256: string;
      bytes: number;
      /** Detected from the content. */
      type: string;
      width: number | null;
      height: number | null;
      etag: string | null;
      lastModified: string | null;
    }
  /** 304. */
  | { kind: 'unchanged' }
  /** 404 or 410 of the service's own path. */
  | { kind: 'gone' }
  /** An expired signed address (401, 403, 404, 410 or S3's 400 of another origin): its record is fetched again. */
  | { kind: 'expired'; reason: string }
  | {
      kind: 'refused';
      code: 'file_too_large' | 'file_type' | 'file_address' | 'file_pixels' | 'file_differs';
      reason: string;
    };

/** Why a file is not taken, now or later. */
export type Refusal = Omit<Extract<Downloaded, { kind: 'refused' }>, 'kind'>;

/** Returns why a file of this size is refused; null if it is accepted. */
export function sizeFault(bytes: number, { most, declared }: DownloadRequest): Refusal | null {
  if (bytes > most) return tooLarge(most);
  if (declared.bytes === null || bytes === declared.bytes) return null;
  return { code: 'file_differs', reason: `the file has ${bytes} bytes, its record says ${declared.bytes}` };
}

export function tooLarge(most: number): Refusal {
  return { code: 'file_too_large', reason: `the file has more than ${most} bytes` };
}

/** Why a file of this kind is not taken; null if it is. While it is still coming, what is not known yet is no fault. */
export function kindFault(
  { type, size, isDamaged }: FileKind,
  { types, mostPixels }: DownloadRequest,
  isWhole: boolean,
): Refusal | null {
  if (isDamaged) return { code: 'file_type', reason: `the header of the file, ${type}, is damaged` };
  const isUndecided = type === 'application/octet-stream' && !isWhole;
  if (!isUndecided && !isAdmitted(type, types)) {
    return { code: 'file_type', reason: `the file is ${type} by its content, wanted: ${types.join(', ')}` };
  }
  if (size === null || size.width * size.height <= mostPixels) return null;
  const reason = `the picture has ${size.width} × ${size.height} pixels, more than ${mostPixels}`;
  return { code: 'file_pixels', reason };
}

/** Returns how these bytes differ from what the record declares; null if they do not. */
export function hashFault(sha256: string, { declared }: DownloadRequest): Refusal | null {
  if (declared.sha256 === null || declared.sha256.toLowerCase() === sha256) return null;
  return { code: 'file_differs', reason: `the SHA-256 of the file is ${sha256}, its record says ${declared.sha256}` };
}
