// `content-sync control health`, for health checks of containers: asks the `serve` or `worker` of this machine.
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { Argument, Command } from 'commander';
import { request } from 'undici';
import { messageOf } from '../model/errors.ts';
import { type CliContext, EXIT_CODES, type ExitCode, print } from './command/context.ts';
import { readSettings, type SourceOptions, withSourceOptions } from './command/sources.ts';

type HealthOptions = SourceOptions & { port?: string };
type ProcessName = 'serve' | 'worker';

export function healthCommand(context: CliContext): Command {
  return withSourceOptions(new Command('health'))
    .addArgument(
      new Argument('[process]', 'Process to ask (default: the first that responds)').choices(['serve', 'worker']),
    )
    .option('--port <number>', 'Port, if it was not started with that of the config')
    .action(async (processName: ProcessName | undefined, options: HealthOptions) => {
      context.exit(await checkHealth(context, processName, options));
    });
}

/**
 * Asks the named process. Without a name, it asks the main process of the container, whose arguments contain its address.
 * Outside of a container it asks both at their addresses in the config: one of them must be healthy.
 */
async function checkHealth(
  context: CliContext,
  requestedProcess: ProcessName | undefined,
  options: HealthOptions,
): Promise<ExitCode> {
  const main = mainProcessArguments();
  const running = requestedProcess ?? (main?.[0] === 'serve' || main?.[0] === 'worker' ? main[0] : undefined);
  if (main !== null && running === undefined) {
    print(context, `this container runs ${main[0] ?? 'nothing'}, which is not checked`);
    return EXIT_CODES.ok;
  }
  const { port, ...sourceOptions } = { ...findOptions(main ?? []), ...options };
  const settings = readSettings(context, sourceOptions);
  const listeners = running === undefined ? [settings.serve, settings.worker] : [settings[running]];
  const urls = listeners.flatMap((listener) => healthUrl(listener.host, port ?? listener.port) ?? []);
  const answers = await Promise.all(urls.map(requestHealth));
  const healthy = answers.find(({ isHealthy }) => isHealthy);
  for (const { url, result } of healthy === undefined ? answers : [healthy]) print(context, `${url}: ${result}`);
  if (answers.length === 0) print(context, 'no port is configured');
  return healthy === undefined ? EXIT_CODES.failed : EXIT_CODES.ok;
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

function findOptions(args: string[]): HealthOptions {
  const options = { port: { type: 'string' }, config: { type: 'string', short: 'c' } } as const;
  const { port, config } = parseArgs({ args, strict: false, options }).values;
  return { ...(typeof port === 'string' && { port }), ...(typeof config === 'string' && { config }) };
}

/** Returns null without a port. A process that listens on all addresses is asked at the loopback address. */
function healthUrl(host: string, port: string | number | null): string | null {
  if (port === null) return null;
  const address = ['0.0.0.0', '::', ''].includes(host) ? '127.0.0.1' : host;
  return `http://${address.includes(':') ? `[${address}]` : address}:${port}/healthz`;
}

const REQUEST_TIMEOUT_MS = 4_000;

async function requestHealth(url: string): Promise<{ url: string; isHealthy: boolean; result: string }> {
  try {
    const { statusCode, body } = await request(url, { signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) });
    await body.dump();
    return { url, isHealthy: statusCode === 200, result: `responds ${statusCode}` };
  } catch (error) {
    return { url, isHealthy: false, result: `does not respond: ${messageOf(error)}` };
  }
}
