// The questions of `init`: asked on a terminal, answered by options elsewhere.
import { ConfigError, SyncError } from '../../model/errors.ts';
import type { CliContext } from '../command/context.ts';

/** A question, and the option that answers it without a terminal. */
interface Prompt {
  message: string;
  option: string;
  /** Used if nothing is typed, and without a terminal. */
  preset?: string | undefined;
  /** True if the answer may be empty. */
  isOptional?: boolean;
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
    const { message, option, preset, refuse } = prompt;
    const known = given ?? (this.#acceptsDefaults ? preset : undefined);
    if (known !== undefined) {
      const fault = refuse?.(known);
      if (fault === undefined) return known;
      throw new ConfigError('usage', `${option}: ${fault}`);
    }
    this.#requireTerminal(prompt);
    const { text } = await import('@clack/prompts');
    const shown = preset === undefined ? {} : { placeholder: preset, defaultValue: preset };
    return answered<string>(text({ message, ...shown, validate: validator(prompt), ...this.#streams }));
  }

  /** What is typed is not shown. */
  async secret(prompt: Prompt): Promise<string> {
    this.#requireTerminal(prompt);
    const { password } = await import('@clack/prompts');
    const typed = password({ message: prompt.message, validate: validator(prompt), ...this.#streams });
    return (await answered<string | undefined>(typed)) ?? '';
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
    const asked = { message, options: choices, initialValues: all, required: true, ...this.#streams };
    return answered<string[]>(multiselect<string>(asked));
  }

  async confirm(message: string): Promise<boolean> {
    if (this.#acceptsDefaults) return true;
    const { confirm } = await import('@clack/prompts');
    return answered<boolean>(confirm({ message, ...this.#streams }));
  }

  #requireTerminal({ message, option }: Prompt): void {
    if (this.isAsking) return;
    throw new ConfigError('usage', `${message}: missing, and there is no terminal to ask on`, {
      hint: `give ${option}`,
    });
  }
}

/** The answer to a prompt of the library, which returns a symbol for Ctrl-C. */
async function answered<T>(prompt: Promise<T | symbol>): Promise<T> {
  const answer = await prompt;
  if (typeof answer !== 'symbol') return answer;
  throw new SyncError('interrupted', 'stopped at a question; nothing was written', { recovery: 'stop' });
}

function validator({ refuse, preset = '', isOptional = false }: Prompt) {
  return (typed: string | undefined): string | undefined => {
    const answer = typed === undefined || typed === '' ? preset : typed;
    if (answer === '') return isOptional ? undefined : 'something is needed here';
    return refuse?.(answer);
  };
}
