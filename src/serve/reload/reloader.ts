import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { SyncError, messageOf } from '../../model/errors.ts';
import { settingsError } from '../../settings/file/fault.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ControlAnswer, ControlOrigin } from '../controls/control-request.ts';
import { changeText, keepingRefused, settingsChange, type SettingsChange } from './settings-change.ts';

/** Why settings that were read again are not used, since when (epoch milliseconds): those from before stay. */
export interface RefusedSettings {
  at: number;
  code: string;
  /** Every fault, one per line, with file, line and field. */
  message: string;
  hint: string | null;
}

export interface ReloaderOptions {
  /** Those that the process began with. */
  settings: Settings;
  /** Reads them again, whole. Throws `ConfigError` if they cannot be used. */
  load: () => Settings;
  /** Puts a change into effect. What throws here is told, and the change counts as made. */
  apply: (change: SettingsChange, settings: Settings) => Promise<void>;
  clock: Clock;
  log: Logger;
}

/** Reads the settings again while the process works with them. */
export interface Reloader {
  /** One at a time; a request that comes meanwhile is served by one further reading. Never rejects. */
  reload(origin: ControlOrigin): Promise<ControlAnswer>;
  /** Null if those are in use that were read last. */
  refused(): RefusedSettings | null;
}

export function createReloader({ settings, load, apply, clock, log }: ReloaderOptions): Reloader {
  let current = settings;
  let refused: RefusedSettings | null = null;
  let running: Promise<unknown> = Promise.resolve();
  let waiting: Promise<ControlAnswer> | null = null;

  function refuse(error: unknown): ControlAnswer {
    const { code, hint = null } = error instanceof SyncError ? error : { code: 'bug' };
    refused = { at: clock.now(), code, message: messageOf(error), hint };
    log.error({ error }, `${REFUSED}: ${refused.message}`);
    return { done: false, message: `${REFUSED}: ${refused.message}`, hint };
  }

  function read(): Settings | { error: unknown } {
    try {
      return load();
    } catch (error) {
      return { error };
    }
  }

  async function reloadNow(): Promise<ControlAnswer> {
    const next = read();
    if ('error' in next) return refuse(next.error);
    const usable = keepingRefused(current, next);
    const change = settingsChange(current, usable);
    const faulty = next.refused.filter(({ name }) => current.sources[name] !== undefined);
    const message = changeText(change);
    current = usable;
    await apply(change, usable);
    log.info(message);
    refused = null;
    if (faulty.length === 0) return { done: true, message, hint: null };
    const answer = refuse(settingsError(...faulty));
    return { ...answer, message: `${message}\n${answer.message}` };
  }

  return {
    reload: ({ via, by }) => {
      waiting ??= running.then(async () => {
        waiting = null;
        log.info({ via, by }, 'reading the settings again');
        const answer = reloadNow().catch(refuse);
        running = answer;
        return answer;
      });
      return waiting;
    },
    refused: () => refused,
  };
}

const REFUSED = 'the settings were read again and cannot be used; the running ones stay';
