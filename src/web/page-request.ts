import type { Readable } from 'node:stream';

/** A request for anything but a webhook: the status page, metrics, readiness, a file or a form. */
export interface PageRequest {
  method: 'GET' | 'HEAD' | 'POST';
  /** Path and query as they were sent. */
  path: string;
  /** Of a form; absent until the page has answered 100 to its headers. */
  body?: string;
  /** By lower-case name. */
  headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

export interface PageAnswer {
  status: number;
  headers: Readonly<Record<string, string>>;
  body: string | Uint8Array;
  /** Is sent in place of `body`, however long it is; its length is in the headers. */
  stream?: Readable;
}
