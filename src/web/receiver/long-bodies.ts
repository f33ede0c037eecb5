import type { Readable } from 'node:stream';

/** Bounds of bodies that are under way. */
export interface LongBodyLimits {
  /** How many there may be. */
  most: number;
  /** How long the next piece of one may not be asked for before it is let go, in milliseconds. */
  idleMs: number;
}

interface OpenBody {
  stream: Readable;
  pieces: AsyncIterator<Uint8Array>;
  idle: NodeJS.Timeout;
}

/**
 * Bodies that the receiver's thread asks for piece by piece, the next one when the last is sent: neither thread ever
 * holds a whole one, however slow its reader is.
 */
export class LongBodies {
  readonly #open = new Map<number, OpenBody>();
  readonly #limits: LongBodyLimits;
  #last = 0;

  constructor(limits: LongBodyLimits) {
    this.#limits = limits;
  }

  /** The number under which its pieces are asked for; null, and it is let go, if too many are under way. */
  add(stream: Readable): number | null {
    // What nobody asks for any more may still fail.
    stream.on('error', () => undefined);
    if (this.#open.size >= this.#limits.most) {
      stream.destroy();
      return null;
    }
    const body = (this.#last += 1);
    const pieces: AsyncIterator<Uint8Array> = stream[Symbol.asyncIterator]();
    this.#open.set(body, { stream, pieces, idle: this.#waitFor(body) });
    return body;
  }

  /** Null at its end. Rejects if it broke off, or was let go. */
  async next(body: number): Promise<Uint8Array | null> {
    const open = this.#open.get(body);
    if (open === undefined) throw new Error('the body was let go');
    clearTimeout(open.idle);
    try {
      const { done, value } = await open.pieces.next();
      if (done !== true) {
        open.idle = this.#waitFor(body);
        return value;
      }
    } catch (error) {
      this.drop(body);
      throw error;
    }
    this.drop(body);
    return null;
  }

  /** Its reader has gone. */
  drop(body: number): void {
    const open = this.#open.get(body);
    clearTimeout(open?.idle);
    open?.stream.destroy();
    this.#open.delete(body);
  }

  close(): void {
    for (const body of this.#open.keys()) this.drop(body);
  }

  #waitFor(body: number): NodeJS.Timeout {
    return setTimeout(() => this.drop(body), this.#limits.idleMs).unref();
  }
}
