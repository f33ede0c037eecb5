import { Command, CommanderError } from 'commander';
import { SyncError, messageOf } from '../model/errors.ts';
import { scrub } from '../observe/scrub.ts';
import { systemClock } from '../observe/system-clock.ts';
import { checkCommand } from './check.ts';
import { configCommand } from './config.ts';
import type { CliContext } from './context.ts';
import { demoCommand } from './demo.ts';
import { EXIT_CODES, exitCodeOfError, type ExitCode } from './exit-code.ts';
import { sandboxCommand } from './sandbox.ts';
import { statusCommand } from './status.ts';
import { backfillCommand, syncCommand } from './sync.ts';

/** Every command, in the order in which the help lists them. */
const COMMANDS: readonly ((context: CliContext) => Command)[] = [
  checkCommand,
  backfillCommand,
  syncCommand,
  statusCommand,
  demoCommand,
  sandboxCommand,
  configCommand,
];

const GETTING_STARTED = `
Getting started:
  $ content-sync demo                 see it work, with a content service on this machine
  $ content-sync check                is every resource reachable, and as the profile says?
  $ content-sync backfill             copy everything; run it again after a stop, it resumes
  $ content-sync sync                 bring in what changed since; this is what a schedule calls

Settings are read from --config, CONTENT_SYNC_CONFIG or config/content-sync.yaml.
Exit codes: 0 ok, 1 failed, 2 configuration or usage, 3 partial (a resource failed or records were set aside),
4 deferred (the service asks for a longer wait than max_wait), 130 interrupted.`;

/** Runs one command line and says how the process is to end. Nothing is thrown. */
export async function runCli(args: readonly string[], version: string, signal: AbortSignal): Promise<ExitCode> {
  let code: ExitCode = EXIT_CODES.ok;
  const context: CliContext = {
    env: process.env,
    cwd: process.cwd(),
    stdout: process.stdout,
    stderr: process.stderr,
    signal,
    secrets: [],
    clock: systemClock,
    exit: (chosen) => {
      code = chosen;
    },
  };
  try {
    await program(context, version).parseAsync(args, { from: 'user' });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT_CODES.ok : EXIT_CODES.usage;
    context.stderr.write(scrub(explain(error), context.secrets));
    return exitCodeOfError(error);
  }
}

function program(context: CliContext, version: string): Command {
  const root = new Command('content-sync')
    .description('Keeps a SQL copy of a content service: its content, images and analytics.')
    .version(version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help; `content-sync <command> --help` for one command')
    .addHelpText('after', GETTING_STARTED)
    .showHelpAfterError('(add --help for what there is)')
    // Before the subcommands, which copy it: a wrong option must not end the process behind our back.
    .exitOverride()
    .configureOutput({
      writeOut: (text) => context.stdout.write(text),
      writeErr: (text) => context.stderr.write(text),
    });
  for (const command of COMMANDS) root.addCommand(command(context).copyInheritedSettings(root));
  return root;
}

/** What a person is told of an error: what happened and what to do next; a stack only where it is a bug. */
function explain(error: unknown): string {
  if (!(error instanceof SyncError)) return `content-sync: a bug, please report it:\n${stackOf(error)}\n`;
  const hint = error.hint === undefined ? '' : `\n  → ${error.hint}`;
  return `content-sync: ${error.message} [${error.code}]${hint}\n`;
}

function stackOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : messageOf(error);
}
