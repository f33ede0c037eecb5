import type { Clock } from '../../model/clock.ts';

/** The row in which a budget stands for all processes; see `Coordination`. */
export interface SharedBudget {
  read(): Promise<StoredRow>;
  /** Stores the state if no other process has since `version`; returns the row as it is now. */
  swap(version: number, state: string): Promise<StoredRow & { isStored: boolean }>;
}

interface StoredRow {
  /** Null if nothing was stored yet. */
  state: string | null;
  version: number;
  /** Epoch milliseconds of the clock that all go by. */
  now: number;
}

/** A row that was read longer ago than this is read again before anything is decided by it. */
const FRESH_MS = 1_000;

/** The row as it was last seen, and the clock that all go by. */
export class SharedRow {
  #clock: Clock;
  #shared: SharedBudget;
  #state: string | null = null;
  #version = 0;
  #seenAt = Number.NEGATIVE_INFINITY;
  #storedAt = Number.NEGATIVE_INFINITY;
  /** The common clock's time when ours shows 0. */
  #offset: number;

  constructor(clock: Clock, shared: SharedBudget) {
    this.#clock = clock;
    this.#shared = shared;
    this.#offset = clock.now() - clock.monotonic();
  }

  get state(): string | null {
    return this.#state;
  }

  now(): number {
    return this.commonTime(this.#clock.monotonic());
  }

  /** The common clock's time when the monotonic one showed this. */
  commonTime(monotonic: number): number {
    return monotonic + this.#offset;
  }

  isFresh(): boolean {
    return this.#clock.monotonic() - this.#seenAt < FRESH_MS;
  }

  /** Has the row read again before anything is decided by it. */
  outdate(): void {
    this.#seenAt = Number.NEGATIVE_INFINITY;
  }

  /** Milliseconds since this process stored anything. */
  sinceStored(): number {
    return this.#clock.monotonic() - this.#storedAt;
  }

  async read(): Promise<void> {
    const asked = this.#clock.monotonic();
    this.#note(await this.#shared.read(), asked);
  }

  /** False if another process was first: then the row is known as that one left it. */
  async store(state: string): Promise<boolean> {
    const asked = this.#clock.monotonic();
    const row = await this.#shared.swap(this.#version, state);
    this.#note(row, asked);
    if (row.isStored) this.#storedAt = asked;
    return row.isStored;
  }

  /** The common clock was read somewhere between the question and its answer: the offset is kept if that fits. */
  #note({ state, version, now }: StoredRow, asked: number): void {
    const answered = this.#clock.monotonic();
    [this.#state, this.#version, this.#seenAt] = [state, version, answered];
    this.#offset = Math.min(now - asked, Math.max(now - answered, this.#offset));
  }
}
