// `content-sync config alerts test`: sends a test message to the alert channels of the config.
import { Command } from 'commander';
import { ConfigError } from '../model/errors.ts';
import { testMessage } from '../server/alerts/message.ts';
import { sendMessage } from '../server/alerts/send-message.ts';
import { type CliContext, EXIT_CODES, type ExitCode, printReport } from './command/context.ts';
import { readSettings, type SourceOptions } from './command/sources.ts';

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
