import type { Logger } from 'pino';
import type { Clock } from '../model/clock.ts';
import type { NameState } from '../warehouse/name-state.ts';

interface WatchParts {
  clock: Clock;
  log: Logger;
  /** Told once that one is lost. */
  lost: () => void;
  signal: AbortSignal;
}

const LOOK_MS = 500;
/** A file that is being copied to its place grows, and its log comes after it. */
const STEADY_MS = 2_000;

/**
 * Watches the names of files that are open. Resolves when these have to be opened anew: what had been away is back, or
 * something else is in its place and has stayed as it is for a while; or when the signal is aborted. As long as nothing
 * is in its place there is nothing to open: a new file that is begun meanwhile would be overwritten by the old one.
 */
export async function untilReopening(names: () => readonly NameState[], parts: WatchParts): Promise<void> {
  const { clock, log, signal } = parts;
  let away: { seen: string; since: number } | null = null;
  while (!signal.aborted) {
    await clock.sleep(LOOK_MS, signal).catch(() => undefined);
    const states = names();
    if (states.every(({ is }) => is === 'named')) {
      if (away !== null) return;
      continue;
    }
    const seen = states.map((state) => state.seen).join(' | ');
    if (away === null) {
      log.error('a file of the warehouse is not the one that is open: nothing is read or written');
      parts.lost();
    }
    const now = clock.monotonic();
    const since: number = away?.seen === seen ? away.since : now;
    away = { seen, since };
    if (states.every(({ is }) => is !== 'gone') && now - since >= STEADY_MS) return;
  }
}
