import type { RequestMeter } from '../client.ts';

/** One file that is to be fetched. */
export interface DownloadRequest {
  url: URL;
  /** True for an address of the service itself: credential and profile headers go along, also after a redirect. */
  isOwn: (url: URL) => boolean;
  /** Folder for the unfinished file. */
  spool: string;
  /** Safe name of ours for the unfinished file, so that it is found again after a kill and resumed. */
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
  /** True for a caller that takes a small file from memory, which is then not written. */
  keepsSmall?: boolean;
  meter: RequestMeter;
  signal: AbortSignal;
}

/** What became of a download. */
export type Downloaded =
  | {
      kind: 'fetched';
      path: string;
      /** All of a small file that does not stand at `path`; absent for one that does. */
      content?: Buffer;
      sha256: string;
      bytes: number;
      /** Told by the content. */
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
  /** A signed address that has run out (401, 403, 404, 410 or S3's 400 of another origin): its record is asked anew. */
  | { kind: 'expired'; reason: string }
  | {
      kind: 'refused';
      code: 'file_too_large' | 'file_type' | 'file_address' | 'file_pixels' | 'file_differs';
      reason: string;
    };

/** Fetches files to a folder. */
export interface Downloader {
  /**
   * Throws `SyncError` with recovery `retry` (network, 5xx, lost midway), the `DeferredError` of a governor,
   * `file_store_full` where there is no room for the unfinished file, and the signal's reason.
   */
  download(request: DownloadRequest): Promise<Downloaded>;
  close(): Promise<void>;
}
