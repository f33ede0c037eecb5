import { readFileSync, writeFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

/**
 * Loaded in front of a command (`--import`): moves its clock ahead by `CHILD_AHEAD_MS`, and writes to `CHILD_WATCH` how
 * much memory it has had at most and how long its loop stood still at most.
 */
const aheadMs = Number(process.env['CHILD_AHEAD_MS'] ?? 0);
const file = process.env['CHILD_WATCH'];

if (aheadMs !== 0) {
  const now = (): number => RealDate.now() + aheadMs;
  const RealDate = Date;
  globalThis.Date = new Proxy(Date, {
    construct: (target, given, made) => Reflect.construct(target, given.length === 0 ? [now()] : given, made),
    apply: () => new RealDate(now()).toString(),
    get: (target, name) => (name === 'now' ? now : Reflect.get(target, name)),
  });
}

if (isMainThread && file !== undefined) {
  const loop = monitorEventLoopDelay({ resolution: 20 });
  loop.enable();
  process.on('exit', () => {
    const [, peakKb = 'NaN'] = /VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
    writeFileSync(file, JSON.stringify({ peakBytes: Number(peakKb) * 1_024, stalledMs: loop.max / 1e6 }));
  });
}
