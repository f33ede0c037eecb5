import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import { signatureSchema } from '../../src/config/profile/signature-scheme.ts';
import { signDelivery } from '../support/sign-delivery.ts';
import { beginCommand, spawnCommand } from '../support/command.ts';
import { rawRequest, type Answered, type RawRequest } from '../support/raw-request.ts';

const PATIENCE_MS = 60_000;

/** `content-sync serve` as a process of its own. */
export interface ServeProcess {
  pid: number;
  url: string;
  /** All that it has written to stdout and stderr so far. */
  written: () => string;
  /** Asks as a stranger does, header names as they are given. */
  ask: (asked: Asked) => Promise<Answered>;
  /** All that it has answered to `ask`, headers included. */
  answered: () => string;
  stop: () => Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** How it ended by itself. */
  ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

/** `GET` and nothing else where absent. */
export type Asked = Partial<RawRequest> & Pick<RawRequest, 'path'>;

/** Takes what ends something that a test has begun. */
export type Ending = (end: () => Promise<void>) => void;

export interface ServeStart {
  env?: NodeJS.ProcessEnv;
  args?: readonly string[];
  ending?: Ending;
  /** True to run it inside this process, where a test is not about the process: half the work. */
  isHere?: boolean;
}

/** Starts it in `folder` with the config there, temporary files included, and waits until it listens. */
export async function startServe(
  folder: string,
  { env = {}, args = [], ending = onTestFinished, isHere = false }: ServeStart = {},
): Promise<ServeProcess> {
  const temporary = path.join(folder, 'tmp');
  mkdirSync(temporary, { recursive: true });
  const begin = isHere ? beginCommand : spawnCommand;
  const command = begin(['serve', '--config', 'config.yaml', ...args], {
    cwd: folder,
    env: { TMPDIR: temporary, ...env },
  });
  const written = (): string => command.said() + command.logged();
  let answered = '';
  const ended = command.ended.then(({ code, signal }) => ({ code, signal }));
  const stop = (): typeof ended => {
    command.kill('SIGTERM');
    return ended;
  };
  ending(async () => {
    command.kill('SIGKILL');
    await ended;
  });
  const url = await Promise.race([
    until(() => /"url":"(http:[^"]+)","msg":"listening"/.exec(command.logged())?.[1], 20),
    ended.then(() => {
      throw new Error(`serve ended: ${written()}`);
    }),
  ]);
  return {
    pid: command.pid,
    url,
    ended,
    stop,
    written,
    answered: () => answered,
    ask: async (asked) => {
      const answer = await ask(new URL(url), asked);
      answered += `${answer.status} ${JSON.stringify(answer.headers)}\n${answer.body}\n`;
      return answer;
    },
  };
}

/** What `look` finds, once it finds something; what costs much to look at is looked at less often. */
export async function until<T>(
  look: () => T | undefined | false | null | Promise<T | undefined | false | null>,
  everyMs = 100,
): Promise<T> {
  const ends = performance.now() + PATIENCE_MS;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false && found !== null) return found;
    if (performance.now() > ends) throw new Error('it did not come');
    await delay(everyMs);
  }
}

function ask({ hostname, port }: URL, asked: Asked): Promise<Answered> {
  return rawRequest(hostname, Number(port), { method: 'GET', headers: {}, body: '', ...asked });
}

/** Writes settings as JSON, which is YAML; names without an end are `.yaml` files. */
export function writeYaml(folder: string, files: Readonly<Record<string, object>>): void {
  for (const [name, content] of Object.entries(files)) {
    writeFileSync(path.join(folder, `${name}.yaml`), JSON.stringify(content));
  }
}

/** A delivery that `source` believes, for one of the built-in schemes. */
export function signed(preset: string, value: string, source: string, body: string | Buffer, id: string) {
  const draft = { body: Buffer.from(body), id, at: Date.now(), method: 'POST', path: `/webhooks/${source}` };
  return signDelivery(signatureSchema.parse(preset), { value }, { ...draft, publicUrl: null });
}
