// The questions of `init`: asked on a terminal, answered by options elsewhere. Example: without `--url` and without a
// terminal, `init` ends with "Address of the content service: missing … give --url".
import { ConfigError, SyncError } from '../../model/errors.ts';
import type { CliContext } from '../command/context.ts';

const NEEDED = 'something is needed here';

/** A question, and the option that answers it without a terminal. */
interface Prompt {
  message: string;
  option: string;
  /** Used if nothing is typed, and without a terminal. */
  preset?: string | undefined;
  /** Returns what is wrong with an answer; undefined if nothing is. */
  refuse?: (answer: string) => string | undefined;
}

/**
 * Asks the user on a terminal; elsewhere uses the options and defaults, and throws `ConfigError` if one is missing. With
 * `--yes` (`acceptsDefaults`), questions with a default are not asked.
 */
export class Questions {
  /** True on a terminal. */
  readonly isAsking: boolean;
  readonly #acceptsDefaults: boolean;
  readonly #streams: { input: CliContext['stdin']; output: CliContext['stdout'] };

  constructor({ stdin, stdout }: CliContext, acceptsDefaults: boolean) {
    this.isAsking = stdin.isTTY === true && stdout.isTTY === true;
    this.#acceptsDefaults = acceptsDefaults || !this.isAsking;
    this.#streams = { input: stdin, output: stdout };
  }

  /** `given` is the value of the option. */
  async text(prompt: Prompt, given: string | undefined): Promise<string> {
    const { message, option, preset, refuse = () => undefined } = prompt;
    const known = given ?? (this.#acceptsDefaults ? preset : undefined);
    if (known !== undefined) {
      const fault = refuse(known);
      if (fault === undefined) return known;
      throw new ConfigError('usage', `${option}: ${fault}`);
    }
    if (!this.isAsking) {
      const hint = `give ${option}`;
      throw new ConfigError('usage', `${message}: missing, and there is no terminal to ask on`, { hint });
    }
    const { text } = await import('@clack/prompts');
    const shown = preset === undefined ? {} : { placeholder: preset, defaultValue: preset };
    const validate = (typed = ''): string | undefined => {
      const answer = typed === '' ? preset : typed;
      return answer === undefined ? NEEDED : refuse(answer);
    };
    return answered<string>(text({ message, ...shown, validate, ...this.#streams }));
  }

  /** What is typed is not shown. Asked on a terminal only. */
  async secret(message: string, isOptional: boolean): Promise<string> {
    const { password } = await import('@clack/prompts');
    const validate = (typed = ''): string | undefined => (typed === '' && !isOptional ? NEEDED : undefined);
    return (await answered<string | undefined>(password({ message, validate, ...this.#streams }))) ?? '';
  }

  async choice(message: string, choices: { value: string; label: string }[], preset: string): Promise<string> {
    if (this.#acceptsDefaults) return preset;
    const { select } = await import('@clack/prompts');
    return answered<string>(select<string>({ message, options: choices, initialValue: preset, ...this.#streams }));
  }

  /** By checkbox; all of them are the default. */
  async several(message: string, choices: { value: string; label: string }[]): Promise<string[]> {
    const all = choices.map(({ value }) => value);
    if (this.#acceptsDefaults) return all;
    const { multiselect } = await import('@clack/prompts');
    const defaults = { options: choices, initialValues: all, required: true };
    return answered<string[]>(multiselect<string>({ message, ...defaults, ...this.#streams }));
  }

  async confirm(message: string): Promise<boolean> {
    if (this.#acceptsDefaults) return true;
    const { confirm } = await import('@clack/prompts');
    return answered<boolean>(confirm({ message, ...this.#streams }));
  }
}

/** The answer to a prompt of the library, which returns a symbol for Ctrl-C. */
async function answered<T>(prompt: Promise<T | symbol>): Promise<T> {
  const answer = await prompt;
  if (typeof answer !== 'symbol') return answer;
  throw new SyncError('interrupted', 'stopped at a question; nothing was written', { recovery: 'stop' });
}
