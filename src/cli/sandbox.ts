import { untilAborted } from '../model/waiting.ts';
import { Command, Option } from 'commander';
import { FAULTS } from '../sandbox/faults/fault-script.ts';
import { SANDBOX_OPTIONS, type OptionDeclaration, type SandboxSettings } from '../sandbox/sandbox-options.ts';
import { startSandbox } from '../sandbox/sandbox.ts';
import type { CliContext } from './command/context.ts';

/** Served if neither --data nor --generate is given. */
const SAMPLE = { content: 1_000, images: 200, analytics: 5_000 } as const;

/** Below the options: every fault with its parameters. */
const HELP = `
Without --data and --generate it serves a small made-up sample.

Faults, as --fault NAME[:VALUE][,KEY=VALUE...]; VALUE is the first parameter:
${Object.entries(FAULTS).map(faultLine).join('\n')}

Each strikes always, or by resource, method, path, page, nth, every, times, and probability with seed.
Example: --fault status:503,resource=content,nth=3`;

/**
 * `content-sync sandbox`: a Content Service to run against. Prints one JSON line with address and credentials once it
 * listens, and runs until the signal. Flags that cannot be read throw ConfigError('usage').
 */
export function sandboxCommand({ signal, stdout }: Pick<CliContext, 'signal' | 'stdout'>): Command {
  const command = new Command('sandbox');
  for (const declaration of Object.values<OptionDeclaration>(SANDBOX_OPTIONS)) command.addOption(flagOf(declaration));
  return command.addHelpText('after', HELP).action(async (flags: Partial<SandboxSettings>) => {
    const empty = flags.data === undefined && flags.generate === undefined;
    const sandbox = await startSandbox(empty ? { ...flags, generate: SAMPLE } : flags);
    const { clientId, clientSecret } = sandbox.oauth;
    const line = { url: sandbox.url, api_key: sandbox.apiKey, client_id: clientId, client_secret: clientSecret };
    stdout.write(`${JSON.stringify(line)}\n`);
    await untilAborted(signal);
    await sandbox.close();
  });
}

function flagOf(declaration: OptionDeclaration): Option {
  const option = new Option(declaration.flag, declaration.about);
  if (declaration.parse === undefined) return option;
  option.argParser((text, before: unknown) => declaration.parse?.(text, before ?? declaration.fallback));
  return option;
}

function faultLine([name, { about, defaults }]: [string, { about: string; defaults: object }]): string {
  const parameters = Object.keys(defaults);
  const named = parameters.length === 0 ? '' : ` (${parameters.join(', ')})`;
  return `  ${name.padEnd(16)} ${about}${named}`;
}
