/** A request that is answered with an error status; the message says why. */
export class RefusedRequest extends Error {
  readonly status: number;
  readonly headers: Record<string, string | string[]>;

  constructor(status: number, detail: string, headers: Record<string, string | string[]> = {}) {
    super(detail);
    this.status = status;
    this.headers = headers;
  }
}
