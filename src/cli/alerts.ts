import { Command } from 'commander';
import type { ChannelSettings } from '../config/alerts-schema.ts';
import type { Settings } from '../config/settings.ts';
import { ConfigError } from '../model/errors.ts';
import { formatDelay } from '../observe/figures.ts';
import { alertSettings } from '../server/alerts/alerts.ts';
import { sendMessage, testMessage } from '../server/alerts/message.ts';
import { type CliContext, EXIT_CODES, type ExitCode } from './command/context.ts';
import { alignedLines, print } from './command/output.ts';
import { readSettings, type SourceOptions } from './command/sources.ts';

/** `content-sync alerts`: where problems are reported. */
export function alertsCommand(context: CliContext): Command {
  const command = new Command('alerts').helpCommand(false);
  command
    .command('test')
    .description('Send a test message to each channel of the config, and print the result')
    .argument('[channel]', 'Only this channel')
    .option('-c, --config <file>', 'Config file (default: CONTENT_SYNC_CONFIG or config/content-sync.yaml)')
    .option('--json', 'Print one JSON object per channel')
    .action(async (channel: string | undefined, options: SourceOptions) => {
      const settings = readSettings(context, options);
      const rows: string[][] = [];
      let code: ExitCode = EXIT_CODES.ok;
      for (const [name, own] of choose(settings, channel)) {
        const tested = await test(context, settings, name, own);
        const { type, sent, problem, ms } = tested;
        if (options.json === true) print(context, tested);
        rows.push([name, type, sent ? `sent in ${formatDelay(ms)}` : `NOT SENT: ${problem}`]);
        if (!sent) code = EXIT_CODES.failed;
      }
      if (options.json !== true) print(context, alignedLines(rows).join('\n'));
      context.exit(code);
    });
  return command;
}

function choose({ alerts }: Settings, name: string | undefined): [string, ChannelSettings][] {
  const channels = Object.entries(alerts);
  if (channels.length === 0) {
    throw new ConfigError('usage', 'no alerts are configured', {
      hint: 'add a channel under alerts, such as ops: { type: slack, url: "${SLACK_WEBHOOK}" }',
    });
  }
  const found = channels.filter(([channel]) => name === undefined || channel === name);
  if (found.length > 0) return found;
  throw new ConfigError('usage', `the config has no channel "${name}" under alerts`, {
    hint: `it has ${channels.map(([channel]) => channel).join(', ')}`,
  });
}

async function test({ clock, signal }: CliContext, settings: Settings, channel: string, own: ChannelSettings) {
  const began = clock.monotonic();
  const message = testMessage(channel, clock.now(), alertSettings(settings).publicUrl);
  const failed = await sendMessage(own, message, signal);
  const problem = failed?.problem ?? null;
  return { channel, type: own.type, sent: failed === null, problem, ms: Math.round(clock.monotonic() - began) };
}
