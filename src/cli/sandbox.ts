import { Command, Option } from 'commander';
import { SANDBOX_OPTIONS } from '../sandbox/sandbox-options.ts';
import type { OptionDeclaration, SandboxSettings } from '../sandbox/sandbox-options.ts';
import { startSandbox } from '../sandbox/sandbox.ts';
import { untilAborted } from '../model/waiting.ts';

/** The part of the context that the command needs. */
export interface SandboxContext {
  /** Aborted when the process is to end. */
  signal: AbortSignal;
  stdout: NodeJS.WritableStream;
}

/** Served if neither --data nor --generate is given. */
const SAMPLE = { content: 1_000, images: 200, analytics: 5_000 } as const;

/**
 * `content-sync sandbox`: a Content Service to run against. Prints one JSON line with address and credentials once it
 * listens, and runs until the signal. Flags that cannot be read throw ConfigError('usage').
 */
export function sandboxCommand({ signal, stdout }: SandboxContext): Command {
  const command = new Command('sandbox');
  for (const declaration of Object.values<OptionDeclaration>(SANDBOX_OPTIONS)) command.addOption(flagOf(declaration));
  return command
    .addHelpText('after', '\nWithout --data and --generate it serves a small made-up sample.')
    .action(async (flags: Partial<SandboxSettings>) => {
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
