// `content-sync explain`: prints the cause and the fix of an error code; without a code, all codes.
import { Command } from 'commander';
import { ConfigError } from '../model/errors.ts';
import { type CliContext, print } from './command/context.ts';
import { ERROR_EXPLANATIONS } from './error-explanations.ts';

export function explainCommand(context: CliContext): Command {
  return new Command('explain')
    .argument('[code]', 'Code that an error shows in brackets, such as auth_failed')
    .option('--json', 'Print JSON')
    .action((code: string | undefined, { json = false }: { json?: boolean }) => {
      const all = Object.values(ERROR_EXPLANATIONS).flat();
      const codes = all.flatMap((each) => each.codes.split(' '));
      if (code === undefined) return print(context, json ? { codes } : codes.toSorted().join('\n'));
      const found = all.find((each) => each.codes.split(' ').includes(code));
      if (found === undefined) {
        throw new ConfigError('usage', `there is no error code ${JSON.stringify(code)}`, {
          hint: 'content-sync explain lists all of them, and CHANGELOG.md renamed ones; a warning carries its own hint',
        });
      }
      const { cause, fix } = found;
      print(context, json ? { code, cause, fix } : `${cause}\n→ ${fix}`);
    });
}
