// The types of a download, its request and its result, and the checks of size, type and hash.
import type { RequestMeter } from '../client.ts';
import { type FileKind, isAdmitted } from './file-kind.ts';

export interface DownloadRequest {
  url: URL;
  /** Returns true for a URL of the service: credential and profile headers are sent there. */
  isOfService: (url: URL) => boolean;
  /** Folder for the unfinished file. */
  spool: string;
  /** Name of the unfinished file; that of a killed download is overwritten. */
  name: string;
  maxBytes: number;
  maxPixels: number;
  /** Allowed types, such as `image/*`. */
  types: readonly string[];
  /** Size and hash according to the record. */
  declared: { bytes: number | null; sha256: string | null };
  /** Validators of the stored file, for a conditional request; both null for an unconditional one. */
  etag: string | null;
  lastModified: string | null;
  /** Counts the requests of the download. */
  meter: RequestMeter;
  signal: AbortSignal;
}

/** The result of a download. */
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
  /** An expired signed URL (401, 403, 404, 410 or S3's 400 of another origin): its record is fetched again. */
  | { kind: 'expired'; reason: string }
  | ({ kind: 'refused' } & FileRefusal);

export interface FileRefusal {
  code: 'file_too_large' | 'file_type' | 'file_address' | 'file_differs';
  reason: string;
}

/** Returns why a file of this size is refused; null if it is accepted. */
export function findSizeFault(bytes: number, { maxBytes, declared }: DownloadRequest): FileRefusal | null {
  if (bytes > maxBytes) return { code: 'file_too_large', reason: `the file has more than ${maxBytes} bytes` };
  if (declared.bytes === null || bytes === declared.bytes) return null;
  return { code: 'file_differs', reason: `the file has ${bytes} bytes, its record says ${declared.bytes}` };
}

/** Returns why a file of this kind is refused; null if it is accepted. */
export function findKindFault(
  { type, size, isDamaged }: FileKind,
  { types, maxPixels }: DownloadRequest,
): FileRefusal | null {
  if (isDamaged) return { code: 'file_type', reason: `the header of the file, ${type}, is damaged` };
  if (!isAdmitted(type, types)) {
    return { code: 'file_type', reason: `the file is ${type} by its content, wanted: ${types.join(', ')}` };
  }
  if (size === null || size.width * size.height <= maxPixels) return null;
  const reason = `the picture has ${size.width} × ${size.height} pixels, more than ${maxPixels}`;
  return { code: 'file_too_large', reason };
}

/** Returns how the content differs from the SHA-256 in its record; null if it does not. */
export function findHashFault(sha256: string, { declared }: DownloadRequest): FileRefusal | null {
  if (declared.sha256 === null || declared.sha256.toLowerCase() === sha256) return null;
  return { code: 'file_differs', reason: `the SHA-256 of the file is ${sha256}, its record says ${declared.sha256}` };
}
