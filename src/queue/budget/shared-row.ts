import type { Clock } from '../../model/clock.ts';

/** The row in which a budget stands for all processes; see `Hub`. */
export interface SharedBudget {
  read(): Promise<StoredRow>;
  /** Stores the state where nobody else has since `version`; and says what stands there now. */
  swap(version: number, state: string): Promise<StoredRow & { isStored: boolean }>;
}

interface StoredRow {
  /** Null where nothing was stored yet. */
  state: string | null;
  version: number;
  /** Epoch milliseconds of the clock that all go by. */
  now: number;
}

/** What is known for longer than this is looked at again before anything is decided by it. */
const FRESH_MS = 1_000;

/** The row as it was last seen, and the clock that all go by. */
export class SharedRow {
  #clock: Clock;
  #shared: SharedBudget;
  #state: string | null = null;
  #version = 0;
  #seenAt = Number.NEGATIVE_INFINITY;
  #storedAt = Number.NEGATIVE_INFINITY;
  /** What the common clock shows when ours shows 0. */
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

  /** What the common clock showed when the monotonic one showed this. */
  commonTime(monotonic: number): number {
    return monotonic + this.#offset;
  }

  isFresh(): boolean {
    return this.#clock.monotonic() - this.#seenAt < FRESH_MS;
  }

  /** What others do meanwhile is to be seen before anything else is done. */
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

  /** False where somebody else was first: then the row is seen as that one left it. */
  async store(state: string): Promise<boolean> {
    const asked = this.#clock.monotonic();
    const row = await this.#shared.swap(this.#version, state);
    this.#note(row, asked);
    if (row.isStored) this.#storedAt = asked;
    return row.isStored;
  }

  /** The common clock was read somewhere between the question and its answer: the offset is kept where that fits. */
  #note({ state, version, now }: StoredRow, asked: number): void {
    const answered = this.#clock.monotonic();
    [this.#state, this.#version, this.#seenAt] = [state, version, answered];
    this.#offset = Math.min(now - asked, Math.max(now - answered, this.#offset));
  }
}
