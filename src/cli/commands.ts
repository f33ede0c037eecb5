import { Command, CommanderError } from 'commander';
import { asStarted } from '../observe/started-as.ts';
import { systemClock } from '../observe/system-clock.ts';
import { withEnvFile } from '../config/env-file.ts';
import type { CliContext } from './command/context.ts';
import { EXIT_CODES, type ExitCode, exitCodeOfError } from './command/exit-code.ts';
import { FIRST_STEPS, tellError } from './command/output.ts';

/** A command as the help lists it; its file is loaded only when it is called. */
interface CommandEntry {
  about: string;
  /** True if it uses no secret of the settings, so that those may be missing. */
  secretsOptional?: true;
  /** The group that lists it; its own name alone works as well. */
  in?: 'control' | 'warehouse' | 'config' | 'export' | 'demo';
  load: () => Promise<(context: CliContext) => Command>;
}

/**
 * Every command by its name, in the order of the help; groups before what they list. A new command is a file in this
 * folder and an entry here.
 */
const COMMANDS: Readonly<Record<string, CommandEntry>> = {
  init: {
    about: 'start here: ask for address and credential, recognise the service, write a config that works',
    load: async () => (await import('./init.ts')).initCommand,
  },
  check: {
    about: 'test config, credential and what the profile assumes against the live service; copies nothing',
    load: async () => (await import('./check.ts')).checkCommand,
  },
  plan: {
    about: 'what the next run will do, and how many requests the last such run took; sends no request, writes nothing',
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
  control: {
    about: 'the running `serve`: pause, resume, retry, reload, health',
    load: () => groupOf('control'),
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
    load: async () => (await import('./runs.ts')).runsCommand,
  },
  verify: {
    about: 'prove the copy: read the service again and compare, without writing; --internal, --repair',
    load: async () => (await import('./verify.ts')).verifyCommand,
  },
  files: {
    about: 'pictures and other files of records: status, verify, prune, get',
    load: async () => (await import('./files/files.ts')).filesCommand,
  },
  warehouse: {
    about: 'the tables as a whole: backup, restore, copy to Postgres, rebuild, grants',
    load: () => groupOf('warehouse'),
  },
  forget: {
    about: 'erase records with all their traces, for good: no later walk, webhook or copy brings them back',
    load: async () => (await import('./forget.ts')).forgetCommand,
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
  export: {
    about:
      'write what BI reads as files for other tools: parquet, csv, ndjson, dbt; and the dictionary of what there is',
    load: async () => (await import('./export.ts')).exportCommand,
  },
  config: {
    about: 'the config file: its schema, known services, a profile for another one, a test of alerts',
    load: async () => (await import('./config.ts')).configCommand,
  },
  explain: {
    about: 'print cause and fix of an error code',
    load: async () => (await import('./explain.ts')).explainCommand,
  },
  demo: {
    about: 'start a content service on this machine, copy it, change it, sync again and query the copy',
    load: async () => (await import('./demo.ts')).demoCommand,
  },
  probe: {
    about: 'find out a profile for a service by asking it, politely and at most 60 times; writes nothing there',
    in: 'config',
    load: async () => (await import('./probe.ts')).probeCommand,
  },
  health: {
    about: 'ask the `serve` or `worker` of this config on this machine whether it lives; for containers',
    secretsOptional: true,
    in: 'control',
    load: async () => (await import('./health.ts')).healthCommand,
  },
  pause: {
    about: 'stop work on a source or resource until it is resumed, restarts included; webhooks are kept meanwhile',
    secretsOptional: true,
    in: 'control',
    load: async () => (await import('./control/control.ts')).pauseCommand,
  },
  resume: {
    about: 'go on with what was paused; webhooks that came meanwhile are worked on',
    secretsOptional: true,
    in: 'control',
    load: async () => (await import('./control/control.ts')).resumeCommand,
  },
  retry: {
    about:
      'have the running `serve` try again now, after a fix; `--now` also forgets how long the service asked to wait',
    in: 'control',
    load: async () => (await import('./control/control.ts')).retryCommand,
  },
  reload: {
    about: 'have the running `serve` read its config anew; a bad one is refused, and the old one stays',
    secretsOptional: true,
    in: 'control',
    load: async () => (await import('./control/control.ts')).reloadCommand,
  },
  dictionary: {
    about: 'tables, columns, relations, freshness, queries to begin with: as a page or JSON; asks only the warehouse',
    secretsOptional: true,
    in: 'export',
    load: async () => (await import('./dictionary.ts')).dictionaryCommand,
  },
  grants: {
    about: 'let a role of Postgres read the copied tables and views, and nothing else; --revoke takes it back',
    secretsOptional: true,
    in: 'warehouse',
    load: async () => (await import('./grants.ts')).grantsCommand,
  },
  rebuild: {
    about: 'make tables anew from the stored bodies, after a change of depth, json or fields; sends no request',
    in: 'warehouse',
    load: async () => (await import('./rebuild.ts')).rebuildCommand,
  },
  alerts: {
    about: 'who is told when something is wrong: `config alerts test` sends a message by each channel of the config',
    in: 'config',
    load: async () => (await import('./alerts.ts')).alertsCommand,
  },
  backup: {
    about: 'write the warehouse and the inbox as of one moment into one file, while `serve` goes on',
    secretsOptional: true,
    in: 'warehouse',
    load: async () => (await import('./backup.ts')).backupCommand,
  },
  restore: {
    about: 'put the warehouse and the inbox of a backup in the place of those that are there: both or none',
    in: 'warehouse',
    load: async () => (await import('./backup.ts')).restoreCommand,
  },
  copy: {
    about: 'carry a SQLite warehouse over to Postgres, with all that is remembered; nothing is fetched again',
    in: 'warehouse',
    load: async () => (await import('./copy.ts')).copyCommand,
  },
  sandbox: {
    about: 'run a content service on this machine, to try things out against',
    in: 'demo',
    load: async () => (await import('./sandbox.ts')).sandboxCommand,
  },
  profiles: {
    about: 'the services that are known already: `config profiles list`, `config profiles show <name>`',
    in: 'config',
    load: async () => (await import('./config.ts')).profilesCommand,
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
  const [first, second] = calledNames(args);
  const groups = new Map<string, Command>();
  for (const [name, { about, load, secretsOptional = false, in: group }] of Object.entries(COMMANDS)) {
    const isAlone = first === name;
    const isCalled = isAlone || (first === group && second === name);
    if (isCalled) context.secretsOptional = secretsOptional;
    const command = (isCalled ? (await load())(context) : new Command(name)).description(about);
    groups.set(name, command);
    const parent = group === undefined || isAlone ? root : (groups.get(group) ?? root);
    parent.addCommand(command, { hidden: group !== undefined && isAlone });
  }
  for (const command of root.commands) inherit(command, root);
  return root;
}

/** A command that only lists others. */
async function groupOf(name: string): Promise<() => Command> {
  return () => new Command(name).helpCommand(false);
}

/** The words that say which command is called, also in `help <command>`; the root's own options take no value. */
function calledNames(args: readonly string[]): string[] {
  const words = args.filter((word) => !word.startsWith('-'));
  return words[0] === 'help' ? words.slice(1) : words;
}

/** `addCommand`, unlike `command`, does not pass the parent's settings on. */
function inherit(command: Command, parent: Command): void {
  command.copyInheritedSettings(parent);
  for (const nested of command.commands) inherit(nested, command);
}
