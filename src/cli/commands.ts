import { Command, CommanderError } from 'commander';
import { withEnvFile } from '../settings/env-file.ts';
import { asStarted } from '../observe/started-as.ts';
import { systemClock } from '../observe/system-clock.ts';
import type { CliContext } from './command/context.ts';
import { FIRST_STEPS } from './command/first-steps.ts';
import { EXIT_CODES, exitCodeOfError, type ExitCode } from './command/exit-code.ts';
import { tellError } from './command/output.ts';

/** A command as the help lists it; its file is loaded only when it is called. */
interface CommandEntry {
  about: string;
  /** True if it uses no secret of the settings, so that those may be missing. */
  secretsOptional?: true;
  load: () => Promise<(context: CliContext) => Command>;
}

/** Every command by its name, in the order of the help. A new command is a file in this folder and an entry here. */
const COMMANDS: Readonly<Record<string, CommandEntry>> = {
  init: {
    about: 'start here: ask for address and credential, recognise the service, write a config that works',
    load: async () => (await import('./init/init.ts')).initCommand,
  },
  check: {
    about: 'test config, credential and what the profile assumes against the live service; copies nothing',
    load: async () => (await import('./check.ts')).checkCommand,
  },
  probe: {
    about: 'find out a profile for a service by asking it, politely and at most 60 times; writes nothing there',
    load: async () => (await import('./probe.ts')).probeCommand,
  },
  plan: {
    about:
      'what will the next run take: requests, minutes, rows, disk; asks for one page of each listing, writes nothing',
    load: async () => (await import('./plan.ts')).planCommand,
  },
  backfill: {
    about: 'copy everything; resumes at the page where an earlier run stopped, and writes only what changed',
    load: async () => (await import('./sync.ts')).backfillCommand,
  },
  sync: {
    about: 'bring in what changed since the last run; a resource that was never copied whole is backfilled',
    load: async () => (await import('./sync.ts')).syncCommand,
  },
  serve: {
    about: 'keep every source fresh: schedule, webhooks, deletes; with a status page, metrics and health checks',
    load: async () => (await import('./serve.ts')).serveCommand,
  },
  worker: {
    about: 'share the work of a `serve` on Postgres: as many of them as you like, on any machines',
    load: async () => (await import('./worker.ts')).workerCommand,
  },
  health: {
    about: 'ask the `serve` or `worker` of this config on this machine whether it lives; for containers',
    secretsOptional: true,
    load: async () => (await import('./health.ts')).healthCommand,
  },
  pause: {
    about: 'stop work on a source or resource until it is resumed, restarts included; webhooks are kept meanwhile',
    secretsOptional: true,
    load: async () => (await import('./control/control.ts')).pauseCommand,
  },
  resume: {
    about: 'go on with what was paused; webhooks that came meanwhile are worked on',
    secretsOptional: true,
    load: async () => (await import('./control/control.ts')).resumeCommand,
  },
  retry: {
    about:
      'have the running `serve` try again now, after a fix; `--now` also forgets how long the service asked to wait',
    load: async () => (await import('./control/control.ts')).retryCommand,
  },
  reload: {
    about: 'have the running `serve` read its config anew; a bad one is refused, and the old one stays',
    secretsOptional: true,
    load: async () => (await import('./control/control.ts')).reloadCommand,
  },
  status: {
    about: 'rows, last success, cursor, records set aside and lag of every resource; asks only the warehouse',
    secretsOptional: true,
    load: async () => (await import('./status.ts')).statusCommand,
  },
  runs: {
    about:
      'past runs and how they ended, the newest first; `runs show <run>` tells all of one; asks only the warehouse',
    secretsOptional: true,
    load: async () => (await import('./runs/runs.ts')).runsCommand,
  },
  verify: {
    about: 'prove the copy: read the service again and compare, without writing; --sample, --internal, --repair',
    load: async () => (await import('./verify.ts')).verifyCommand,
  },
  files: {
    about: 'pictures and other files of records: status, verify, prune, get',
    load: async () => (await import('./files/files.ts')).filesCommand,
  },
  dictionary: {
    about:
      'tables, columns, relations, freshness, queries to begin with: as Markdown, HTML or JSON; asks only the warehouse',
    secretsOptional: true,
    load: async () => (await import('./dictionary/dictionary.ts')).dictionaryCommand,
  },
  grants: {
    about: 'let a role of Postgres read the copied tables and views, and nothing else; --revoke takes it back',
    secretsOptional: true,
    load: async () => (await import('./grants.ts')).grantsCommand,
  },
  rebuild: {
    about: 'make tables anew from the stored bodies, after a change of depth, json or fields; sends no request',
    load: async () => (await import('./rebuild.ts')).rebuildCommand,
  },
  forget: {
    about: 'erase records with all their traces, for good: no later walk, webhook or copy brings them back',
    load: async () => (await import('./forget/forget.ts')).forgetCommand,
  },
  deletes: {
    about: 'deletes that wait: list them, let them go on (confirm) or forget them (discard)',
    load: async () => (await import('./deletes.ts')).deletesCommand,
  },
  deliveries: {
    about: 'what came in by webhook: list it, show one delivery, work on some again (replay)',
    load: async () => (await import('./deliveries.ts')).deliveriesCommand,
  },
  webhooks: {
    about: '`webhooks send` tries out how the service signs its webhooks',
    load: async () => (await import('./webhooks.ts')).webhooksCommand,
  },
  alerts: {
    about: 'who is told when something is wrong: `alerts test` sends a message by each channel of the config',
    load: async () => (await import('./alerts.ts')).alertsCommand,
  },
  backup: {
    about: 'write the warehouse and the inbox as of one moment into one file, while `serve` goes on',
    secretsOptional: true,
    load: async () => (await import('./backup.ts')).backupCommand,
  },
  restore: {
    about: 'put the warehouse and the inbox of a backup in the place of those that are there: both or none',
    load: async () => (await import('./backup.ts')).restoreCommand,
  },
  copy: {
    about: 'carry a SQLite warehouse over to Postgres, with all that is remembered; nothing is fetched again',
    load: async () => (await import('./copy.ts')).copyCommand,
  },
  export: {
    about: 'write what BI reads as files for other tools: export parquet, csv or ndjson',
    load: async () => (await import('./export.ts')).exportCommand,
  },
  demo: {
    about: 'start a content service on this machine, copy it, change it, sync again and query the copy',
    load: async () => (await import('./demo/demo.ts')).demoCommand,
  },
  sandbox: {
    about: 'run a content service on this machine, to try things out against',
    load: async () => (await import('./sandbox.ts')).sandboxCommand,
  },
  profiles: {
    about: 'the services that are known already: `profiles list`, `profiles show <name>`',
    load: async () => (await import('./profiles.ts')).profilesCommand,
  },
  config: {
    about: 'about the config file: `config schema` prints its JSON Schema',
    load: async () => (await import('./config.ts')).configCommand,
  },
};

const GETTING_STARTED = `
Getting started:${FIRST_STEPS}
  content-sync demo        see it work, with a content service on this machine
  content-sync sync --help the options of one command

Settings are read from --config, CONTENT_SYNC_CONFIG or config/content-sync.yaml.
Exit codes: 0 ok, 1 failed, 2 configuration or usage, 3 partial (a resource failed or records were set aside),
4 deferred (the service asks for a longer wait than max_wait), 130 interrupted.`;

/** Runs one command line and returns the exit code. Never throws. Whatever is not given of the context is the process's own. */
export async function runCli(
  args: readonly string[],
  given: Pick<CliContext, 'version' | 'signal' | 'secrets'> & Partial<CliContext>,
): Promise<ExitCode> {
  let code: ExitCode = EXIT_CODES.ok;
  const context: CliContext = {
    env: process.env,
    cwd: process.cwd(),
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    clock: systemClock,
    umask: (mask) => void process.umask(mask),
    json: args.includes('--json'),
    ...given,
    exit: (chosen) => {
      code = chosen;
    },
  };
  try {
    const outside = context.env;
    context.rereadEnv = () => void (context.env = withEnvFile(outside, context.cwd));
    context.rereadEnv();
    const root = await program(context, args);
    await root.parseAsync(args, { from: 'user' });
    return code;
  } catch (error) {
    // Commander has written the message by then.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT_CODES.ok : EXIT_CODES.usage;
    await tellError(context, error);
    return exitCodeOfError(error);
  }
}

async function program(context: CliContext, args: readonly string[]): Promise<Command> {
  const root = new Command('content-sync')
    .description('Keeps a SQL copy of a content service: its content, images and analytics.')
    .version(context.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .addHelpText('after', GETTING_STARTED)
    .showHelpAfterError('(add --help for what there is)')
    // Before the subcommands, which copy it: a wrong option must not end the process behind our back.
    .exitOverride()
    .configureOutput({
      writeOut: (text) => context.stdout.write(asStarted(text)),
      writeErr: (text) => context.stderr.write(text),
    });
  for (const [name, { about, load, secretsOptional = false }] of Object.entries(COMMANDS)) {
    const isCalled = calledName(args) === name;
    if (isCalled) context.secretsOptional = secretsOptional;
    const command = isCalled ? (await load())(context) : new Command(name);
    root.addCommand(command.description(about));
    inherit(command, root);
  }
  return root;
}

/** The word that says which command is called, also in `help <command>`; the root's own options take no value. */
function calledName(args: readonly string[]): string | undefined {
  const words = args.filter((word) => !word.startsWith('-'));
  return words[0] === 'help' ? words[1] : words[0];
}

/** `addCommand`, unlike `command`, does not pass the parent's settings on. */
function inherit(command: Command, parent: Command): void {
  command.copyInheritedSettings(parent);
  for (const nested of command.commands) inherit(nested, command);
}
