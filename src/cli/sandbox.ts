import { Command } from 'commander';
import { ConfigError } from '../model/errors.ts';
import { untilAborted } from '../model/waiting.ts';
import { startSandbox, type SandboxOptions } from '../sandbox/sandbox.ts';
import type { CliContext } from './command/context.ts';

/** Served if neither --data nor --generate is given. */
const SAMPLE = { content: 1_000, images: 200, analytics: 5_000 } as const;
const MAX_PORT = 65_535;

/**
 * `content-sync sandbox`: a content service to run against. Prints one JSON line with address and credentials once it
 * listens, and runs until the signal. Options that cannot be read throw ConfigError('usage').
 */
export function sandboxCommand({ signal, stdout }: Pick<CliContext, 'signal' | 'stdout'>): Command {
  return new Command('sandbox')
    .option('--port <number>', 'port to listen on; 0 picks a free one', (text) =>
      parseNumber('--port', text, 0, MAX_PORT),
    )
    .option('--host <address>', 'address to listen on, default 127.0.0.1')
    .option('--api-key <key>', 'the API key; generated if absent')
    .option('--data <folder>', 'serve <resource>.ndjson and files/ from a folder')
    .option('--generate <counts>', 'records to generate, as content=200000,images=1000', parseCounts)
    .option('--rate <number>', 'allowed requests per second', (text) => parseNumber('--rate', text, 0.001))
    .option('--burst <number>', 'requests that may come at once; the rate if absent', (text) =>
      parseNumber('--burst', text, 1),
    )
    .action(async (options: SandboxOptions) => {
      const isEmpty = options.data === undefined && options.generate === undefined;
      const sandbox = await startSandbox(isEmpty ? { ...options, generate: SAMPLE } : options);
      const { url, apiKey: api_key, clientId: client_id, clientSecret: client_secret } = sandbox;
      stdout.write(`${JSON.stringify({ url, api_key, client_id, client_secret })}\n`);
      await untilAborted(signal);
      await sandbox.close();
    });
}

function parseNumber(option: string, text: string, min: number, max = Number.MAX_SAFE_INTEGER): number {
  const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max && (option === '--rate' || Number.isInteger(value))) return value;
  const range = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
  throw new ConfigError('usage', `${option} is ${JSON.stringify(text)}, not a number ${range}`);
}

function parseCounts(text: string): Record<string, number> {
  const pairs = text.split(',').map((pair) => /^([a-z][a-z0-9_-]*)=(\d{1,9})$/.exec(pair.trim()));
  return Object.fromEntries(
    pairs.map((pair) => {
      if (pair?.[1] !== undefined) return [pair[1], Number(pair[2])];
      throw new ConfigError('usage', `--generate cannot read "${text}".`, {
        hint: 'Write content=200000,images=1000.',
      });
    }),
  );
}
