import { Command } from 'commander';
import { ConfigError } from '../model/errors.ts';
import { delayText } from '../observe/figures.ts';
import { scrubOwn } from '../observe/scrub/scrub.ts';
import { createChannel } from '../serve/alerts/channels/create-channel.ts';
import { testMessage } from '../serve/alerts/message.ts';
import type { ChannelSettings } from '../settings/alerts-schema.ts';
import type { Settings } from '../settings/settings.ts';
import type { CliContext } from './command/context.ts';
import { EXIT_CODES } from './command/exit-code.ts';
import { alignedLines, print } from './command/output.ts';
import { readSettings, type SourceOptions } from './command/sources.ts';

type TestOptions = SourceOptions & { json?: true };

interface Tested {
  channel: string;
  type: ChannelSettings['type'];
  sent: boolean;
  problem: string | null;
  ms: number;
}

/** `content-sync alerts`: who is told when something is wrong. */
export function alertsCommand(context: CliContext): Command {
  const command = new Command('alerts').helpCommand(false);
  command
    .command('test')
    .description('send a test message by every channel of the config, and tell what became of it')
    .argument('[channel]', 'only this channel')
    .option('-c, --config <file>', 'config file (else CONTENT_SYNC_CONFIG, else config/content-sync.yaml)')
    .option('--json', 'print one JSON object per channel on stdout')
    .action(async (channel: string | undefined, options: TestOptions) => {
      const settings = readSettings(context, options);
      const tested: Tested[] = [];
      for (const [name, own] of chosen(settings, channel)) {
        const outcome = await test(context, settings, name, own);
        tested.push(outcome);
        if (options.json === true) print(context, outcome);
      }
      if (options.json !== true) print(context, alignedLines(tested.map(rowOf)).join('\n'));
      context.exit(tested.every(({ sent }) => sent) ? EXIT_CODES.ok : EXIT_CODES.failed);
    });
  return command;
}

function chosen({ alerts }: Settings, name: string | undefined): [string, ChannelSettings][] {
  const channels = Object.entries(alerts);
  if (channels.length === 0) {
    throw new ConfigError('usage', 'the config tells nobody: it has no `alerts`', {
      hint: 'add a channel under alerts, such as ops: { type: slack, url: "${SLACK_WEBHOOK}" }',
    });
  }
  const found = channels.filter(([channel]) => name === undefined || channel === name);
  if (found.length > 0) return found;
  throw new ConfigError('usage', `the config has no channel "${name}" under alerts`, {
    hint: `it has ${channels.map(([channel]) => channel).join(', ')}`,
  });
}

async function test(
  { clock, secrets, signal }: CliContext,
  { serve }: Settings,
  name: string,
  settings: ChannelSettings,
): Promise<Tested> {
  const channel = createChannel(settings);
  const began = clock.monotonic();
  const scrub = (text: string): string => scrubOwn(text, secrets);
  const place = { now: clock.now(), publicUrl: serve.public_url ?? null, scrub };
  const failed = await channel.send(testMessage(name, place), signal);
  await channel.close();
  const ms = Math.round(clock.monotonic() - began);
  return { channel: name, type: settings.type, sent: failed === null, problem: failed?.problem ?? null, ms };
}

function rowOf({ channel, type, problem, ms }: Tested): string[] {
  return [channel, type, problem === null ? `sent in ${delayText(ms)}` : `NOT SENT: ${problem}`];
}
