import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { messageOf } from '../../model/errors.ts';
import { repeatUntilAborted } from '../../model/waiting.ts';
import type { Metrics } from '../../observe/metrics.ts';
import { scrubOwn } from '../../observe/scrub/scrub.ts';
import type { AlertsSettings } from '../../settings/alerts-schema.ts';
import type { Settings } from '../../settings/settings.ts';
import type { AlertChannelStatus, StatusSnapshot } from '../status/snapshot.ts';
import { AlertMemory, type AlertSource } from './alert-memory.ts';
import { ChannelLine } from './channel-line.ts';
import { createChannel } from './channels/create-channel.ts';
import { judge } from './conditions.ts';

/** Who is told, and where people see the page. */
export interface AlertSettings {
  channels: AlertsSettings;
  /** Null if it is not known. */
  publicUrl: string | null;
}

/** That part of the settings. */
export function alertSettings({ alerts, serve }: Pick<Settings, 'alerts' | 'serve'>): AlertSettings {
  return { channels: alerts, publicUrl: serve.public_url ?? null };
}

export interface AlertsOptions extends AlertSettings {
  /** How everything stands, as the page shows it. */
  snapshot: () => Promise<StatusSnapshot>;
  /** The sources of now. */
  sources: () => readonly AlertSource[];
  clock: Clock;
  log: Logger;
  /** Texts that must not be in a message; may grow. */
  secrets: readonly string[];
  metrics: Pick<Metrics, 'alerted'>;
}

/** Tells people what goes wrong and when it is over. Nothing waits for it. */
export interface Alerts {
  /** Looks at the status from now on, every few seconds, as long as there are channels. */
  start(): void;
  /** Looks once, tells without waiting for more, and resolves once all channels have taken it or failed. */
  lookOnce(): Promise<void>;
  /** Goes on with other settings: channels that are as they were keep what they know. */
  configure(settings: AlertSettings): void;
  status(): AlertChannelStatus[];
  /** Cuts off what is on its way: it is told after the next start. */
  stop(): Promise<void>;
}

const LOOK_MS = 5_000;

/** Sends nothing before it is started. */
export function createAlerts(options: AlertsOptions): Alerts {
  const { clock, log, metrics, sources } = options;
  const memory = new AlertMemory();
  const stopping = new AbortController();
  const { signal } = stopping;
  const lines = new Map<string, ChannelLine>();
  const closing: Promise<void>[] = [];
  let publicUrl: string | null = null;
  let looking: Promise<void> = Promise.resolve();
  const failed = (error: unknown): void => log.warn({ error }, `alerts were put off: ${messageOf(error)}`);
  const remember = (): Promise<void> => writeDown(memory, sources(), log);
  const reread = (names: ReadonlySet<string>): Promise<void> => memory.reread(sources(), names);
  const scrub = (text: string): string => scrubOwn(text, options.secrets);
  const shared = { memory, remember, reread, clock, log, metrics, scrub };

  function configure(settings: AlertSettings): void {
    publicUrl = settings.publicUrl;
    const wanted = new Map(Object.entries(settings.channels));
    for (const [name, line] of lines) {
      if (isSame(line.settings, wanted.get(name))) wanted.delete(name);
      else {
        closing.push(line.close());
        lines.delete(name);
      }
    }
    for (const [name, own] of wanted) {
      lines.set(name, new ChannelLine({ ...shared, name, settings: own, channel: createChannel(own) }));
    }
  }

  async function look(isOnce: boolean): Promise<void> {
    if (lines.size === 0) return;
    const snapshot = await options.snapshot();
    const known = sources();
    await memory.read(known);
    const judgement = memory.known(judge(snapshot), known);
    for (const line of lines.values()) line.look(judgement, publicUrl, signal, isOnce);
    if (isOnce) await Promise.all(Array.from(lines.values(), (line) => line.idle()));
    await remember();
  }

  configure(options);
  return {
    start: () => {
      looking = repeatUntilAborted({ clock, everyMs: LOOK_MS, signal, failed }, () => look(false));
    },
    lookOnce: () => look(true),
    configure,
    status: () => Array.from(lines.values(), (line) => line.status()),
    stop: async () => {
      stopping.abort();
      await looking;
      await Promise.all([...closing, ...Array.from(lines.values(), (line) => line.close())]);
      await remember();
    },
  };
}

async function writeDown(memory: AlertMemory, sources: readonly AlertSource[], log: Logger): Promise<void> {
  for (const { source, error } of await memory.write(sources)) {
    log.warn({ source, error }, `what was told could not be remembered: ${messageOf(error)}`);
  }
}

function isSame(before: unknown, now: unknown): boolean {
  return JSON.stringify(before) === JSON.stringify(now);
}
