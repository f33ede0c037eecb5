import type { Logger } from 'pino';
import type { Clock } from '../model/clock.ts';
import { sleepOrAbort } from '../model/waiting.ts';
import type { NameState } from '../warehouse/name-state.ts';

interface WatchParts {
  clock: Clock;
  log: Logger;
  /** Called once, as soon as a file has lost its name. */
  lost: () => void;
  signal: AbortSignal;
}

const LOOK_MS = 500;
/** A file that is being copied to its place grows, and its log comes after it. */
const STEADY_MS = 2_000;

/**
 * Watches the names of files that are open. Resolves when the files must be opened again, because one that had been
 * moved is back, or another one has taken its place and has not changed for a while; or when the signal is aborted. While
 * nothing is in its place there is nothing to open: a file created now would be overwritten when the old one comes back.
 */
export async function untilReopening(names: () => readonly NameState[], parts: WatchParts): Promise<void> {
  const { clock, log, signal } = parts;
  let away: { seen: string; since: number } | null = null;
  while (!signal.aborted) {
    await sleepOrAbort(clock, LOOK_MS, signal);
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
