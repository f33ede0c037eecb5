import { HandClock } from '../support/hand-clock.ts';
import { fixedWindow, governorFor, load, seeded, slidingWindow, tokenBucket } from '../queue/limited-service.ts';
import type { Limiter } from '../queue/limited-service.ts';
import { between } from '../queue/pacing.ts';

/**
 * `node test/bench/waiting.ts`: how soon a limit is found that the service does not state, by the governor itself and a
 * clock that is wound by hand: the part of the rate that was used in the first ten seconds, the next ten and the forty
 * after that, and how many answers were 429 in the whole minute.
 */
const LIMITERS: Readonly<Record<string, (rate: number) => Limiter>> = {
  'bucket of one second': (rate) => tokenBucket(rate, rate),
  'bucket of 5': (rate) => tokenBucket(rate, 5),
  'bucket of ten seconds': (rate) => tokenBucket(rate, 10 * rate),
  'windows of a second': (rate) => fixedWindow(rate, 1_000, 370),
  'sliding second': (rate) => slidingWindow(rate, 1_000),
};
const RATES = [20, 50, 200];
const LATENCY_MS = 20;
const SPANS: readonly [from: number, to: number][] = [
  [0, 10_000],
  [10_000, 20_000],
  [20_000, 60_000],
];

async function line(rate: number, name: string, limiter: Limiter, retryAfter: boolean): Promise<string> {
  const clock = new HandClock('2026-11-20T08:00:00.123Z');
  const random = seeded(7);
  const latency = (): number => (LATENCY_MS / 2) * (0.5 + random());
  const seen = await load(governorFor(clock), { clock, limiter, headers: 'none', latency, retryAfter }, 60_000);
  const used = SPANS.map(([from, to]) => {
    const served = between(seen.arrivals, from, to) - between(seen.limited, from, to);
    return `${((100_000 * served) / ((to - from) * rate)).toFixed(0)} %`;
  });
  const limited = ((100 * seen.limited.length) / seen.arrivals.length).toFixed(1);
  const after = retryAfter ? 'with' : 'without';
  return `${rate}/s, ${name}, ${after} Retry-After: ${used.join(', ')}; ${limited} % limited`;
}

for (const rate of RATES) {
  for (const [name, make] of Object.entries(LIMITERS)) {
    for (const retryAfter of [true, false]) console.log(await line(rate, name, make(rate), retryAfter));
  }
}
