import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { z } from 'zod';
import { packagedProfiles, profilePath, readPackagedProfile } from '../config/load-profile.ts';
import { profileSchema } from '../config/profile/profile.ts';
import { anySettingsSchema } from '../config/settings.ts';
import { ConfigError } from '../model/errors.ts';
import { sendMessage, testMessage } from '../server/alerts/message.ts';
import type { JsonSchema } from '../config/file/check-value.ts';
import { type CliContext, EXIT_CODES, type ExitCode } from './command/context.ts';
import { alignedLines, print, printReport } from './command/output.ts';
import { readSettings, type SourceOptions } from './command/sources.ts';

/** `content-sync config schema`: what an editor needs to help with the files. */
export function configCommand(context: CliContext): Command {
  const schema = new Command('schema')
    .description('Print the JSON Schema of the config file, for editors')
    .option('--profile', 'Print that of profiles instead')
    .action((options: { profile?: true }) => {
      const text = options.profile === true ? profileJsonSchema() : configJsonSchema();
      context.stdout.write(`${JSON.stringify(text, null, 2)}\n`);
    });
  return new Command('config').addCommand(schema);
}

/** `content-sync profiles`: the services that are known already. */
export function profilesCommand(context: CliContext): Command {
  const list = new Command('list')
    .description('List the shipped profiles, and the version each was tested with')
    .option('--json', 'Print one JSON object per profile')
    .action((options: { json?: true }) => {
      const entries = packagedProfiles().map(toEntry);
      if (options.json === true) for (const entry of entries) print(context, entry);
      else print(context, formatEntries(entries));
    });
  const show = new Command('show')
    .description('Print a profile, to read it or to start your own')
    .argument('<name>', 'Name, as `list` shows it')
    .action((name: string) => {
      context.stdout.write(readFileSync(profilePath(known(name), ''), 'utf8'));
    });
  return new Command('profiles').addCommand(list).addCommand(show);
}

interface ProfileEntry {
  profile: string;
  title: string;
  /** Version that it was tried with; null if it was written from the documentation. */
  tried: string | null;
  resources: string[];
}

function toEntry(name: string): ProfileEntry {
  const { about, resources } = readPackagedProfile(name);
  return {
    profile: name,
    title: about?.title ?? '',
    tried: about?.tried ?? null,
    resources: Object.keys(resources),
  };
}

function formatEntries(entries: readonly ProfileEntry[]): string {
  const rows = entries.map(({ profile, title, tried, resources }) => [
    profile,
    title,
    tried === null ? 'from its documentation, not tested' : `tested with ${tried}`,
    resources.join(', '),
  ]);
  return alignedLines(rows).join('\n');
}

function known(name: string): string {
  const names = packagedProfiles();
  if (names.includes(name)) return name;
  throw new ConfigError('usage', `no profile has the name "${name}"`, {
    hint: `choose one of ${names.join(', ')}`,
  });
}

/** `content-sync alerts test`: sends a test message to the channels of the config. */
export function alertsCommand(context: CliContext): Command {
  const test = new Command('test')
    .description('Send a test message to each channel of the config, and print the result')
    .argument('[channel]', 'Only this channel')
    .option('-c, --config <file>', 'Config file (default: CONTENT_SYNC_CONFIG or config/content-sync.yaml)')
    .option('--json', 'Print one JSON object per channel')
    .action(async (only: string | undefined, options: SourceOptions) => {
      const { alerts, serve } = readSettings(context, options);
      const channels = Object.entries(alerts).filter(([channel]) => only === undefined || channel === only);
      if (channels.length === 0) {
        const what = only === undefined ? 'no alerts are configured' : `no channel has the name "${only}"`;
        throw new ConfigError('usage', what, {
          hint: 'add a channel under alerts, such as ops: { type: slack, url: "${SLACK_WEBHOOK}" }',
        });
      }
      let code: ExitCode = EXIT_CODES.ok;
      for (const [channel, settings] of channels) {
        const message = testMessage(channel, context.clock.now(), serve.public_url ?? null);
        const problem = (await sendMessage(settings, message, context.signal))?.problem ?? null;
        const { type } = settings;
        const text = `${channel}  ${type}  ${problem === null ? 'sent' : `NOT SENT: ${problem}`}`;
        printReport(context, { channel, type, sent: problem === null, problem }, text);
        if (problem !== null) code = EXIT_CODES.failed;
      }
      context.exit(code);
    });
  return new Command('alerts').helpCommand(false).addCommand(test);
}

/** JSON Schema of the config file, for editors and `content-sync config schema`. */
export function configJsonSchema(): JsonSchema {
  return { title: 'content-sync config', ...z.toJSONSchema(anySettingsSchema, { io: 'input' }) };
}

/**
 * JSON Schema of a profile, for editors. Nothing is required in it, because a profile with `extends` holds only what
 * differs from its base, and null leaves a resource out; loading checks that the whole is complete.
 */
export function profileJsonSchema(): JsonSchema {
  const schema = z.toJSONSchema(profileSchema, { io: 'input', override: ({ jsonSchema }) => loosen(jsonSchema) });
  const resources = schema.properties?.['resources'];
  if (typeof resources === 'object' && typeof resources.additionalProperties === 'object') {
    const resource = resources.additionalProperties;
    resources.additionalProperties = { anyOf: [resource, { type: 'null' }] };
    const defaults = schema.properties?.['defaults'];
    if (typeof defaults === 'object') delete Object.assign(defaults, resource).propertyNames;
  }
  return { title: 'content-sync profile', ...schema };
}

function loosen(schema: JsonSchema): void {
  delete schema.required;
  const { lookback } = schema.properties ?? {};
  if (schema.properties !== undefined && lookback !== undefined) {
    schema.properties['overlap'] = { deprecated: true, description: 'Former name of lookback', type: 'string' };
  }
  // A part of a map may fit several branches of a union, which `oneOf` would refuse.
  if (schema.oneOf === undefined) return;
  schema.anyOf = schema.oneOf;
  delete schema.oneOf;
}
