import type { Writable } from 'node:stream';
import { ConfigError, SyncError } from '../../model/errors.ts';
import type { CliContext } from '../command/context.ts';

/** A question, and the option that answers it without a terminal. */
interface Question {
  message: string;
  option: string;
  /** Used if nothing is typed, and without a terminal. */
  preset?: string | undefined;
  /** True if the answer may be empty. */
  isOptional?: boolean;
  /** Returns what is wrong with an answer; undefined if nothing is. */
  refuse?: (answer: string) => string | undefined;
}

/** Asks the user on a terminal; elsewhere uses the options, and fails if one is missing. */
export interface Questions {
  /** True on a terminal. */
  readonly isAsking: boolean;
  text(question: Question, given: string | undefined): Promise<string>;
  /** What is typed is not shown. */
  secret(question: Question): Promise<string>;
  choice<T extends string>(message: string, choices: readonly { value: T; label: string }[], preset: T): Promise<T>;
  /** True without asking if there is no terminal or `--yes` is given. */
  confirm(message: string): Promise<boolean>;
}

/** `agrees` is true with `--yes`: questions with a default are not asked. */
export function openQuestions({ stdin, stdout }: CliContext, agrees: boolean): Questions {
  return stdin.isTTY === true && stdout.isTTY === true ? onTerminal(stdin, stdout, agrees) : fromOptions();
}

function missing({ message, option }: Question): ConfigError {
  const hint = `give ${option}`;
  return new ConfigError('usage', `${message}: missing, and there is no terminal to ask on`, { hint });
}

function fromOptions(): Questions {
  return {
    isAsking: false,
    text: async (question, given) => {
      const answer = given ?? question.preset;
      if (answer === undefined) throw missing(question);
      return accepted(question, answer);
    },
    secret: async (question) => {
      throw missing(question);
    },
    choice: async (_message, _choices, preset) => preset,
    confirm: async () => true,
  };
}

/** Throws `ConfigError` if the value of an option is invalid. */
function accepted({ option, refuse }: Question, answer: string): string {
  const fault = refuse?.(answer);
  if (fault === undefined) return answer;
  throw new ConfigError('usage', `${option}: ${fault}`);
}

/** The answer to a prompt of the library, which gives a symbol for Ctrl-C. */
async function answered<T>(prompt: Promise<T>): Promise<Exclude<T, symbol>> {
  const answer = await prompt;
  if (isAnswer(answer)) return answer;
  throw new SyncError('interrupted', 'stopped at a question; nothing was written', { recovery: 'stop' });
}

function isAnswer<T>(answer: T): answer is Exclude<T, symbol> {
  return typeof answer !== 'symbol';
}

function validated({ refuse, preset, isOptional = false }: Question) {
  return {
    validate: (typed: string | undefined) => {
      const answer = typed === undefined || typed === '' ? (preset ?? '') : typed;
      if (answer === '') return isOptional ? undefined : 'something is needed here';
      return refuse?.(answer);
    },
  };
}

function onTerminal(stdin: CliContext['stdin'], stdout: Writable, agrees: boolean): Questions {
  const streams = { input: stdin, output: stdout };
  const library = import('@clack/prompts');
  return {
    isAsking: true,
    text: async (question, given) => {
      if (given !== undefined) return accepted(question, given);
      const { message, preset } = question;
      if (agrees && preset !== undefined) return preset;
      const { text } = await library;
      const shown = preset === undefined ? {} : { placeholder: preset, defaultValue: preset };
      return answered(text({ message, ...shown, ...validated(question), ...streams }));
    },
    secret: async (question) => {
      const { password } = await library;
      return (await answered(password({ message: question.message, ...validated(question), ...streams }))) ?? '';
    },
    choice: async (message, choices, preset) => {
      if (agrees) return preset;
      const { select } = await library;
      const options = choices.map(({ value, label }) => ({ value, label }));
      const chosen = await answered(select<string>({ message, options, initialValue: preset, ...streams }));
      return choices.find(({ value }) => value === chosen)?.value ?? preset;
    },
    confirm: async (message) => {
      if (agrees) return true;
      const { confirm } = await library;
      return answered(confirm({ message, ...streams }));
    },
  };
}
