import { Command, InvalidArgumentError } from 'commander';
import { untilAborted } from '../model/waiting.ts';
import type { CliContext } from './command/context.ts';
import { EXIT_CODES, type ExitCode } from './command/exit-code.ts';
import { startServing, type ServeOptions } from './serving.ts';
import { withSourceOptions } from './command/sources.ts';

/** `content-sync serve`: keeps all sources fresh until it is stopped, and shows how they stand. */
export function serveCommand(context: CliContext): Command {
  return withSourceOptions(new Command('serve'))
    .option('--host <address>', 'address to listen on, in place of serve.host')
    .option('--port <number>', 'port to listen on, in place of serve.port; 0 picks a free one', port)
    .action(async (options: ServeOptions) => context.exit(await serve(context, options)));
}

async function serve(context: CliContext, options: ServeOptions): Promise<ExitCode> {
  const serving = await startServing(context, options);
  serving.log.info({ url: serving.url }, 'listening');
  try {
    await Promise.race([untilAborted(context.signal), serving.failed]);
    serving.log.info('stopping');
    // A service that was told to stop has done what it was there for.
    return EXIT_CODES.ok;
  } finally {
    await serving.stop();
  }
}

function port(text: string): number {
  const number = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (number <= 65_535) return number;
  throw new InvalidArgumentError('It must be a number from 0 to 65535.');
}
