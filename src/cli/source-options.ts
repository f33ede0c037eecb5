import { Option, type Command } from 'commander';
import { LOG_LEVELS, type LogLevel } from '../model/vocabulary.ts';

/** Options of every command that works on configured sources. */
export interface SourceOptions {
  config?: string;
  source?: string;
  logLevel?: LogLevel;
}

/** Adds those options to a command. */
export function withSourceOptions(command: Command): Command {
  const logLevel = new Option(
    '--log-level <level>',
    'how much is logged on stderr; on a terminal in place of live lines',
  );
  return command
    .option('-c, --config <file>', 'config file (else CONTENT_SYNC_CONFIG, else config/content-sync.yaml)')
    .option('-s, --source <name>', 'only this source of the config')
    .addOption(logLevel.choices(LOG_LEVELS));
}
