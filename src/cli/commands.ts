// All commands of the CLI, their help texts, and `runCli`, which runs one command line.
import { Command, CommanderError } from 'commander';
import { withEnvFile } from '../config/env-file.ts';
import { toTypableCommands } from '../observe/scrub.ts';
import { systemClock } from '../observe/system-clock.ts';
import {
  type CliContext,
  EXIT_CODES,
  type ExitCode,
  exitCodeOfError,
  FIRST_STEPS,
  printError,
} from './command/context.ts';

/** A command in the help; its file is loaded only when it is called. */
interface CommandEntry {
  about: string;
  /** True if it uses no secret of the settings, so that those may be missing. */
  secretsOptional?: true;
  /** The group that lists it: `control pause` works, and `pause` alone as well. */
  in?: 'control' | 'warehouse' | 'config' | 'demo';
  load: () => Promise<(context: CliContext) => Command>;
}

/**
 * Every command by its name, in the order of the help; groups before their members. A new command is a file in this
 * folder and an entry here.
 */
const COMMANDS: Readonly<Record<string, CommandEntry>> = {
  init: {
    about: 'Start here: detect a service from its address and credential, and write a working config',
    load: async () => (await import('./init.ts')).initCommand,
  },
  check: {
    about: 'Test config, credential and profile against the live service; copies nothing',
    load: async () => (await import('./check.ts')).checkCommand,
  },
  backfill: {
    about: 'Copy everything; resumes where an earlier run stopped',
    load: async () => (await import('./sync.ts')).backfillCommand,
  },
  sync: {
    about: 'Copy what changed since the last run; backfills what was never copied',
    load: async () => (await import('./sync.ts')).syncCommand,
  },
  serve: {
    about: 'Keep every source fresh: schedule, webhooks, deletes, status page, metrics, health checks',
    load: async () => (await import('./serve.ts')).serveCommand,
  },
  worker: {
    about: 'Share the work of a `serve` on Postgres, with any number of workers on any machine',
    load: async () => (await import('./worker.ts')).workerCommand,
  },
  control: {
    about: 'Control the running `serve`: pause, resume, retry, health',
    load: () => createGroup('control'),
  },
  status: {
    about: 'Show rows, last success, cursor, rejected records and lag of every resource; reads only the warehouse',
    secretsOptional: true,
    load: async () => (await import('./status.ts')).statusCommand,
  },
  runs: {
    about: 'List past runs, newest first; `runs show <run>` shows one in full; reads only the warehouse',
    secretsOptional: true,
    load: async () => (await import('./runs.ts')).runsCommand,
  },
  verify: {
    about: 'Compare the copy with the service',
    load: async () => (await import('./verify.ts')).verifyCommand,
  },
  files: {
    about: 'Manage pictures and other files of records: status, verify, prune',
    load: async () => (await import('./files.ts')).filesCommand,
  },
  warehouse: {
    about: 'Manage the tables as a whole: backup, rebuild, grants',
    load: () => createGroup('warehouse'),
  },
  forget: {
    about: 'Erase records with all their traces, for good',
    load: async () => (await import('./forget.ts')).forgetCommand,
  },
  deletes: {
    about: 'List, confirm or discard deletes that are held',
    load: async () => (await import('./deletes.ts')).deletesCommand,
  },
  deliveries: {
    about: 'List, show or replay webhook deliveries',
    load: async () => (await import('./deliveries.ts')).deliveriesCommand,
  },
  export: {
    about: 'Write files for other tools: parquet, csv, ndjson, dbt',
    load: async () => (await import('./export.ts')).exportCommand,
  },
  config: {
    about: 'Work with the config file: probe, test of alerts',
    load: () => createGroup('config'),
  },
  explain: {
    about: 'Print cause and fix of an error code',
    load: async () => (await import('./explain.ts')).explainCommand,
  },
  demo: {
    about: 'Start a content service on this machine, copy it, change it, sync again and query the copy',
    load: async () => (await import('./demo.ts')).demoCommand,
  },
  probe: {
    about: 'Find a profile for a service by experiment, with at most 60 requests; changes nothing there',
    in: 'config',
    load: async () => (await import('./probe.ts')).probeCommand,
  },
  health: {
    about: 'Ask the `serve` or `worker` of this config on this machine whether it is healthy',
    secretsOptional: true,
    in: 'control',
    load: async () => (await import('./health.ts')).healthCommand,
  },
  pause: {
    about: 'Stop work on a source or resource until it is resumed; webhooks are stored meanwhile',
    secretsOptional: true,
    in: 'control',
    load: async () => (await import('./control.ts')).pauseCommand,
  },
  resume: {
    about: 'Continue what was paused, and process the webhooks stored meanwhile',
    secretsOptional: true,
    in: 'control',
    load: async () => (await import('./control.ts')).resumeCommand,
  },
  retry: {
    about: 'Have the running `serve` try again now; --now also ignores the wait that the service requested',
    in: 'control',
    load: async () => (await import('./control.ts')).retryCommand,
  },
  grants: {
    about: 'Let a Postgres role read the copied tables and views; --revoke undoes it',
    secretsOptional: true,
    in: 'warehouse',
    load: async () => (await import('./warehouse.ts')).grantsCommand,
  },
  rebuild: {
    about: 'Rebuild tables from the stored bodies, after a change of depth, json or fields; sends no request',
    in: 'warehouse',
    load: async () => (await import('./warehouse.ts')).rebuildCommand,
  },
  alerts: {
    about: 'Send a test message to each alert channel of the config',
    in: 'config',
    load: async () => (await import('./alerts.ts')).alertsCommand,
  },
  backup: {
    about: 'Copy a SQLite warehouse into one file while `serve` runs',
    secretsOptional: true,
    in: 'warehouse',
    load: async () => (await import('./warehouse.ts')).backupCommand,
  },
  sandbox: {
    about: 'Run a content service on this machine to experiment with',
    in: 'demo',
    load: async () => (await import('./sandbox.ts')).sandboxCommand,
  },
};

const GETTING_STARTED = `
Getting started:${FIRST_STEPS}
  content-sync demo        Try it with a content service on this machine
  content-sync sync --help Print the options of one command

Settings are read from --config, CONTENT_SYNC_CONFIG or config/content-sync.yaml.
Exit codes: 0 ok, 1 failed, 2 configuration or usage, 3 partial (a resource failed or records were rejected),
4 deferred (the service requests a longer wait than max_wait), 130 interrupted.`;

/** Runs one command line and returns the exit code. Never throws. `parts` replace those of the process, as in tests. */
export async function runCli(
  args: readonly string[],
  parts: Pick<CliContext, 'version' | 'signal' | 'secrets'> & Partial<CliContext>,
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
    ...parts,
    exit: (chosen) => {
      code = chosen;
    },
  };
  try {
    context.env = withEnvFile(context.env, context.cwd);
    const root = await createProgram(context, args);
    await root.parseAsync(args, { from: 'user' });
    return code;
  } catch (error) {
    // Commander has already written the message.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT_CODES.ok : EXIT_CODES.usage;
    await printError(context, error);
    return exitCodeOfError(error);
  }
}

/** Creates the program with all commands; only the one that is called is loaded, the others are lines of the help. */
async function createProgram(context: CliContext, args: readonly string[]): Promise<Command> {
  const root = new Command('content-sync')
    .description('Keep a SQL copy of a content service: its content, images and analytics')
    .version(context.version, '-V, --version', 'Print the version')
    .helpOption('-h, --help', 'Print this help')
    .addHelpText('after', GETTING_STARTED)
    .showHelpAfterError('(add --help for usage)')
    // Set before the subcommands, which copy it: Commander must not end the process itself after a wrong option.
    .exitOverride()
    .configureOutput({
      writeOut: (text) => context.stdout.write(toTypableCommands(text)),
      writeErr: (text) => context.stderr.write(text),
    });
  const [first, second] = calledNames(args);
  const groups = new Map<string, Command>();
  for (const [name, { about, load, secretsOptional = false, in: group }] of Object.entries(COMMANDS)) {
    const isFirst = first === name;
    const isCalled = isFirst || (first === group && second === name);
    if (isCalled) context.secretsOptional = secretsOptional;
    const command = (isCalled ? (await load())(context) : new Command(name)).description(about);
    groups.set(name, command);
    const parent = group === undefined || isFirst ? root : (groups.get(group) ?? root);
    parent.addCommand(command, { hidden: group !== undefined && isFirst });
  }
  for (const command of root.commands) inherit(command, root);
  return root;
}

async function createGroup(name: string): Promise<() => Command> {
  return () => new Command(name).helpCommand(false);
}

/** Returns the words that name the called command, also in `help <command>`; options of the root take no value. */
function calledNames(args: readonly string[]): string[] {
  const words = args.filter((word) => !word.startsWith('-'));
  return words[0] === 'help' ? words.slice(1) : words;
}

/** Copies the parent's settings to its commands, because `addCommand`, unlike `command`, does not. */
function inherit(command: Command, parent: Command): void {
  command.copyInheritedSettings(parent);
  for (const nested of command.commands) inherit(nested, command);
}
