/**
 * Keeps the writes of this thread's connection from meeting those of another thread's: they would find the file locked,
 * and to wait for a lock is slower than to wait for the one who holds it.
 */
export class WriteGate {
  #held: Promise<unknown> | null = null;

  /** Does the work, which another thread writes in, when no other such work is under way. */
  async hold<T>(work: () => Promise<T>): Promise<T> {
    await this.#open();
    const held = work();
    this.#held = held;
    try {
      return await held;
    } finally {
      this.#held = null;
    }
  }

  /** Does work that writes in this thread; at once if no other thread is writing. */
  pass<T>(work: () => T | Promise<T>): T | Promise<T> {
    return this.#held === null ? work() : this.#open().then(work);
  }

  async #open(): Promise<void> {
    while (this.#held !== null) await this.#held.catch(() => undefined);
  }
}
