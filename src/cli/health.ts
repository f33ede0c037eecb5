import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { Argument, Command } from 'commander';
import { request } from 'undici';
import { messageOf } from '../model/errors.ts';
import { type CliContext, EXIT_CODES, type ExitCode } from './command/context.ts';
import { print } from './command/output.ts';
import { readSettings, type SourceOptions, withSourceOptions } from './command/sources.ts';

type Options = SourceOptions & { port?: string };
type Asked = 'serve' | 'worker';

const PATIENCE_MS = 4_000;

/** `content-sync health`: whether the `serve` or `worker` of this config lives on this machine, for container and init systems. */
export function healthCommand(context: CliContext): Command {
  return withSourceOptions(new Command('health'))
    .addArgument(
      new Argument('[process]', 'Process to ask (default: the first that responds)').choices(['serve', 'worker']),
    )
    .option('--port <number>', 'Port, if it was not started with that of the config')
    .action(async (asked: Asked | undefined, options: Options) => {
      context.exit(await health(context, asked, options));
    });
}

async function health(context: CliContext, named: Asked | undefined, options: Options): Promise<ExitCode> {
  const main = mainProcessArguments();
  const running = named ?? (main?.[0] === 'serve' || main?.[0] === 'worker' ? main[0] : undefined);
  if (main !== null && running === undefined) {
    print(context, `this container runs ${main[0] ?? 'nothing'}, which is not checked`);
    return EXIT_CODES.ok;
  }
  return checkListeners(context, running, { ...findOptions(main ?? []), ...options });
}

/** The arguments of content-sync if it is the main process of this container; null elsewhere. */
function mainProcessArguments(): string[] | null {
  try {
    const words = readFileSync('/proc/1/cmdline', 'utf8').split('\0').slice(0, -1);
    const script = words.indexOf(process.argv[1] ?? '');
    return script < 0 ? null : words.slice(script + 1);
  } catch {
    return null;
  }
}

/** The options of that process which say where it listens. */
function findOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    strict: false,
    options: { port: { type: 'string' }, config: { type: 'string', short: 'c' } },
  });
  const { port, config } = values;
  return { ...(typeof port === 'string' && { port }), ...(typeof config === 'string' && { config }) };
}

async function checkListeners(context: CliContext, asked: Asked | undefined, options: Options): Promise<ExitCode> {
  const settings = readSettings(context, options);
  const places = asked === undefined ? [settings.serve, settings.worker] : [settings[asked]];
  const urls = places.flatMap((place) => urlOf(place, options.port) ?? []);
  const answers = await Promise.all(urls.map(ask));
  const well = answers.find(({ isWell }) => isWell);
  for (const { url, said } of well === undefined ? answers : [well]) print(context, `${url}: ${said}`);
  if (answers.length === 0) print(context, 'the config lets it listen nowhere');
  return well === undefined ? EXIT_CODES.failed : EXIT_CODES.ok;
}

/** An address that listens everywhere is asked here. */
function urlOf(
  { host, port: set }: { host: string; port: number | null },
  port = set === null ? undefined : String(set),
): string | null {
  if (port === undefined) return null;
  const named = ['0.0.0.0', '::', ''].includes(host) ? '127.0.0.1' : host;
  return `http://${named.includes(':') ? `[${named}]` : named}:${port}/healthz`;
}

async function ask(url: string): Promise<{ url: string; isWell: boolean; said: string }> {
  try {
    const { statusCode, body } = await request(url, { signal: AbortSignal.timeout(PATIENCE_MS) });
    await body.dump();
    return { url, isWell: statusCode === 200, said: `answers ${statusCode}` };
  } catch (error) {
    return { url, isWell: false, said: `does not answer: ${messageOf(error)}` };
  }
}
