import { schedule, type Logger } from 'node-cron';

/** Calls back now and then, with or without a reason, until it is stopped. */
export type TickSource = (tick: () => void) => { stop(): void };

const EVERY_MINUTE = '* * * * *';

/**
 * A tick at every full minute. In UTC, for which node-cron is right at all times of the year, and only as a hint: the
 * stored state says what is due, so a tick too few or too many changes nothing.
 */
export function cronTick(expression = EVERY_MINUTE): TickSource {
  return (tick) => {
    const options = { timezone: 'UTC', noOverlap: true, suppressMissedWarning: true, logger: QUIET };
    const task = schedule(expression, tick, options);
    return { stop: () => void task.destroy() };
  };
}

/** Ticks that come late are not worth a message, and the console is not our log. */
const nothing = (): void => undefined;
const QUIET: Logger = { info: nothing, warn: nothing, error: nothing, debug: nothing };
