import type { Downloaded, DownloadRequest } from './downloader.ts';
import { isAdmitted, type FileKind } from './file-kind.ts';

/** Why a file is not taken, now or later. */
export type Refusal = Omit<Extract<Downloaded, { kind: 'refused' }>, 'kind'>;

/** What a request says of the bytes of a file. */
type Wanted = Pick<DownloadRequest, 'most' | 'declared'>;

/** Why a file of so many bytes is not taken; null if it is. */
export function sizeFault(bytes: number, { most, declared }: Wanted): Refusal | null {
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
  { types, mostPixels }: Pick<DownloadRequest, 'types' | 'mostPixels'>,
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

/** Why these bytes are not those that the record tells of; null if they are. */
export function hashFault(sha256: string, { declared }: Wanted): Refusal | null {
  if (declared.sha256 === null || declared.sha256.toLowerCase() === sha256) return null;
  return { code: 'file_differs', reason: `the SHA-256 of the file is ${sha256}, its record says ${declared.sha256}` };
}
