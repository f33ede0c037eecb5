import { randomUUID } from 'node:crypto';
import type { Clock } from '../../model/clock.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { sleepOrAbort, waitAtMost, WOKEN } from '../../model/waiting.ts';
import { deferredBy, type BudgetKeeper, type KeeperOptions, type WaitingLine } from './budget-keeper.ts';
import { forgetWaits, type Budget, type BudgetAnswer, type BudgetOptions } from './budget.ts';
import { SharedRow, type SharedBudget } from './shared-row.ts';
import { restoreShared, storeShared } from './budget-codec.ts';
import { CLAIM_MS, grantRound, type Claim, type Ended, type GrantRound, type SharedState } from './grant-round.ts';

/** How long the grant of another process may be overdue before it is passed over. */
const OVERDUE_MS = 40;
/** How often to look whether an answer that came to another process has opened the way. */
const LOOK_MS = 25;
/** A process with requests under way stores so often that it is alive; one that waits for long reads so often. */
const SEEN_MS = 1_500;
/**
 * So long may the end of a request wait to be stored with the start of the next one, while nobody else is there. Who comes
 * meanwhile takes it for under way.
 */
const HELD_MS = 250;
const LEAVE_MS = 1_000;
/** An answer that asks for nothing is told so much later at most: together with the request that mostly follows it. */
const TOLD_ALONE_MS = 5;

/**
 * One process's part in a budget that several share. All of it stands in one row: a process that wants to send
 * computes the row after that, and sends once it has stored it. So nothing is granted twice, and an answer's limits hold
 * for all.
 */
export class SharedKeeper implements BudgetKeeper {
  readonly #owner = randomUUID().slice(0, 8);
  #clock: Clock;
  #maxWaitMs: number;
  #options: BudgetOptions;
  #line: WaitingLine;
  #row: SharedRow;
  /** The row as it was last computed, and as this process has last written it. */
  #state: SharedState;
  #stored = '';
  /** The number that was granted to the task that is just being started. */
  #granted: number | null = null;
  /** Requests under way, and since when. */
  #running = new Map<number, number>();
  #ended: Ended[] = [];
  /** The grant that another process lets pass, and since when. */
  #passing: { grant: number; since: number } | null = null;
  #isRunning = false;
  #pause: AbortController | null = null;
  #closed = false;

  constructor({ clock, maxWaitMs, budget }: KeeperOptions, line: WaitingLine, shared: SharedBudget) {
    this.#clock = clock;
    this.#maxWaitMs = maxWaitMs;
    this.#options = budget;
    this.#line = line;
    this.#row = new SharedRow(clock, shared);
    this.#state = restoreShared(null, budget, this.now());
  }

  now(): number {
    return this.#row.now();
  }

  pump(): void {
    this.#pause?.abort(WOKEN);
    if (!this.#isRunning) void this.#runRounds();
  }

  start(): number {
    if (this.#granted === null) throw new Error('a request that nothing was granted for');
    const request = this.#granted;
    this.#granted = null;
    this.#running.set(request, this.now());
    return request;
  }

  end(request: number, _lane: Lane, answer: BudgetAnswer | null): void {
    const startedAt = this.#running.get(request);
    if (startedAt === undefined) return;
    this.#running.delete(request);
    this.#ended.push({ request, startedAt, answer });
  }

  get budget(): Budget {
    return this.#state.budget;
  }

  async forgetWaits(): Promise<void> {
    for (let isStored = false; !isStored;) {
      await this.#row.read();
      const state = this.#restored();
      forgetWaits(state.budget);
      isStored = await this.#row.store(storeShared(state, this.now()));
    }
    this.pump();
  }

  /** Takes this process out of the row, so that none waits for it; if that takes too long, it is forgotten by itself. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#pause?.abort();
    if (this.#row.state === null) return;
    await waitAtMost(
      this.#clock,
      LEAVE_MS,
      this.#leave().catch(() => undefined),
    );
  }

  async #leave(): Promise<void> {
    for (const [request, startedAt] of this.#running) this.#ended.push({ request, startedAt, answer: null });
    this.#running.clear();
    for (let isStored = false; !isStored;) {
      const state = this.#restored();
      this.#grantRound(state, 0);
      state.claims.delete(this.#owner);
      state.seen.delete(this.#owner);
      isStored = await this.#row.store(storeShared(state, this.now()));
    }
  }

  /** One grant round after the other, as long as anything waits here or is under way. */
  async #runRounds(): Promise<void> {
    this.#isRunning = true;
    try {
      while (!this.#closed && (this.#line.size > 0 || this.#running.size > 0 || this.#ended.length > 0)) {
        await this.#runRound();
      }
    } catch (error) {
      // If the row cannot be had for so long, the answers could not be written either.
      this.#line.refuse(error instanceof Error ? error : new Error(String(error)));
    } finally {
      this.#isRunning = false;
    }
  }

  async #runRound(): Promise<void> {
    const mayWait = this.#ended.length > 0 && this.#ended.every(({ answer }) => answer !== null && isPlain(answer));
    if (mayWait && this.#line.size === 0) await this.#sleep(TOLD_ALONE_MS);
    if (this.#closed) return;
    if (!this.#row.isFresh()) await this.#row.read();
    const state = this.#restored();
    const stored = state.claims.get(this.#owner);
    const outcome = this.#grantRound(state, this.#line.free);
    const { granted, delay } = outcome;
    if (delay > this.#maxWaitMs && Number.isFinite(delay)) return this.#line.refuse(deferredBy(delay, this.#clock));
    const isUnseen = this.#running.size > 0 && this.#row.sinceStored() >= SEEN_MS;
    const isNews = granted.length > 0 || this.#hasNews(state) || isUnseen;
    if (isNews || isClaimDue(state.claims.get(this.#owner), stored, delay, this.now())) {
      await this.#store(state, granted);
    } else await this.#rest(outcome, state);
  }

  /** An end that says nothing of a limit changes nothing before the next start, if nobody else is there. */
  #hasNews(state: SharedState): boolean {
    const earliest = this.now() - HELD_MS;
    const isHeld = ({ answer }: Ended): boolean => answer !== null && !answer.limited && answer.at > earliest;
    return this.#ended.length > 0 && !(this.#isAlone(state) && this.#ended.every(isHeld));
  }

  #restored(): SharedState {
    const { state } = this.#row;
    this.#state = restoreShared(state, this.#options, this.now(), state === this.#stored);
    return this.#state;
  }

  #grantRound(state: SharedState, free: number): GrantRound {
    const arrivals = this.#line.arrivals();
    const waiting = arrivals.map(({ lane, at }) => ({ lane, at: this.#row.commonTime(at) }));
    const running = new Set(this.#running.keys());
    const { grant, since } = this.#passing ?? { grant: -1, since: 0 };
    const isOverdue = grant === state.grants && this.#clock.monotonic() - since >= OVERDUE_MS;
    const claimant = { owner: this.#owner, waiting, free, running, ended: this.#ended, isOverdue };
    return grantRound(state, claimant, this.now());
  }

  async #store(state: SharedState, granted: readonly number[]): Promise<void> {
    const stored = this.#ended.length;
    this.#stored = storeShared(state, this.now());
    if (!(await this.#row.store(this.#stored))) return;
    this.#ended.splice(0, stored);
    for (const request of granted) this.#open(request);
  }

  /** Whoever it was granted for may have given up meanwhile, and nobody else waits. */
  #open(request: number): void {
    this.#granted = request;
    if (!this.#closed) this.#line.open();
    if (this.#granted === null) return;
    this.#granted = null;
    this.#ended.push({ request, startedAt: this.now(), answer: null });
  }

  /** Until the budget allows the next one, this process has to store that it is alive, or something happens here. */
  async #rest({ delay, ahead, grantMs }: GrantRound, state: SharedState): Promise<void> {
    const { grants: grant } = state;
    const isPassing = delay === 0 && ahead > 0;
    if (!isPassing) this.#passing = null;
    else if (this.#passing?.grant !== grant) this.#passing = { grant, since: this.#clock.monotonic() };
    const mayOpen = Number.isFinite(delay) ? delay + ahead * grantMs : LOOK_MS * (1 + ahead);
    const look = isPassing ? Math.min(mayOpen, OVERDUE_MS) : mayOpen;
    const rest = this.#line.size === 0 ? SEEN_MS : Math.min(look, isNear(delay) ? CLAIM_MS / 2 : SEEN_MS);
    await this.#sleep(this.#ended.length === 0 ? rest : Math.min(rest, HELD_MS));
    // A process that goes next anyway learns what others have done when it stores, and so does one that is alone.
    if (ahead > 0 || (!Number.isFinite(delay) && !this.#isAlone(state))) this.#row.outdate();
  }

  /** True if nobody else was there when the row was last read: then only what happens here opens the way. */
  #isAlone({ seen, claims, holders }: SharedState): boolean {
    const owners = [...seen.keys(), ...claims.keys(), ...[...holders.values()].map(({ owner }) => owner)];
    return owners.every((owner) => owner === this.#owner);
  }

  async #sleep(ms: number): Promise<void> {
    const pause = new AbortController();
    this.#pause = pause;
    await sleepOrAbort(this.#clock, ms, pause.signal);
    this.#pause = null;
  }
}

/** An answer by which nobody has to wait. */
function isPlain({ limited, limits: { waitMs, quotas, isExhausted } }: BudgetAnswer): boolean {
  return !limited && !waitMs && !isExhausted && quotas.every(({ remaining }) => remaining !== 0);
}

/** Others must know of those that wait here while their grant is near, and no longer than they wait. */
function isClaimDue(claim: Claim | undefined, stored: Claim | undefined, delay: number, now: number): boolean {
  if (claim === undefined) return stored !== undefined;
  return isNear(delay) && (stored?.lane !== claim.lane || stored.until - now < CLAIM_MS / 2);
}

function isNear(delay: number): boolean {
  return delay < CLAIM_MS || delay === Number.POSITIVE_INFINITY;
}
