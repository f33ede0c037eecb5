import { Command } from 'commander';
import type { App } from '../app.ts';
import { ConfigError } from '../model/errors.ts';
import { visibleText } from '../model/visible-text.ts';
import { countText } from '../observe/figures.ts';
import { DIFFERENCES, type Certificate, type Difference, type FilesAccount } from '../sync/verify/certificate.ts';
import type { Repaired } from '../sync/verify/repair-resource.ts';
import { openWarehouseToRead } from '../warehouse/databases.ts';
import type { VerifyMode, Verdict } from '../warehouse/verification-row.ts';
import type { CliContext } from './command/context.ts';
import { EXIT_CODES, exitCodeOfError, worstExitCode, type ExitCode } from './command/exit-code.ts';
import { besideOthers } from './command/beside-others.ts';
import { print, tellError } from './command/output.ts';
import { forEachSource, type ChosenSource, withSourceOptions, type SourceOptions } from './command/sources.ts';
import { withApp } from './command/with-app.ts';

interface VerifyOptions extends SourceOptions {
  sample?: string;
  seed?: string;
  internal?: true;
  repair?: true;
  json?: true;
}

const EXIT_OF: Readonly<Record<Verdict, ExitCode>> = {
  equal: EXIT_CODES.ok,
  differs: EXIT_CODES.partial,
  unproved: EXIT_CODES.failed,
};

/** `content-sync verify`: is the copy what the service has? Exit code 3 if it is not. */
export function verifyCommand(context: CliContext): Command {
  return withSourceOptions(new Command('verify'))
    .argument('[resource...]', 'only these resources of the profile')
    .option('--sample <number>', 'only as many rows, drawn at random, each read alone; says how much may still differ')
    .option('--seed <number>', 'draw the same rows as the sample that printed this number')
    .option('--internal', 'ask the service nothing: compare the copy with its own stored bodies and versions')
    .option('--repair', 'put right what differs, and verify again')
    .option('--json', 'print one JSON object per resource on stdout: its certificate')
    .action(async (names: string[], options: VerifyOptions) => {
      const asked = askedFor(options);
      await forEachSource(context, options, names, async (chosen) => verifySource(context, chosen, options, asked));
    });
}

interface Asked {
  mode: VerifyMode;
  count: number;
  seed: number;
}

const MOST_DRAWN = 1_000_000;
const SEEDS = 2 ** 32;

function askedFor({ sample, seed, internal }: VerifyOptions): Asked {
  if (internal === true && sample !== undefined)
    throw new ConfigError('usage', '--internal and --sample cannot be given together', {
      hint: 'a sample is read at the service, --internal asks it nothing',
    });
  const mode = internal === true ? 'internal' : sample === undefined ? 'whole' : 'sample';
  const drawn = Math.floor(Math.random() * SEEDS);
  return {
    mode,
    count: numberIn('--sample', sample ?? '1', 1, MOST_DRAWN),
    seed: numberIn('--seed', seed ?? String(drawn), 0, SEEDS - 1),
  };
}

function numberIn(option: string, text: string, least: number, most: number): number {
  const number = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (number >= least && number <= most) return number;
  throw new ConfigError('usage', `${option} is ${JSON.stringify(text)}, no number from ${least} to ${most}`);
}

async function verifySource(
  context: CliContext,
  chosen: ChosenSource,
  options: VerifyOptions,
  asked: Asked,
): Promise<ExitCode> {
  // Nothing is made where no copy is.
  await (await openWarehouseToRead(chosen.source.warehouse, context.clock)).close();
  const source = await besideOthers(chosen.source, context.clock);
  return withApp(context, { ...chosen, source }, async (app) => {
    const codes: ExitCode[] = [];
    for (const resource of chosen.resources) {
      try {
        codes.push(await verifyOne(context, app, { ...asked, resource }, options));
      } catch (error) {
        if (context.signal.aborted) throw error;
        await tellError(context, error, chosen.source.name);
        codes.push(exitCodeOfError(error));
      }
    }
    return worstExitCode(codes);
  });
}

async function verifyOne(
  context: CliContext,
  app: App,
  asked: Asked & { resource: string },
  { repair, json }: VerifyOptions,
): Promise<ExitCode> {
  const { signal, version } = context;
  const request = { ...asked, signal, version };
  const found = await app.verify(request);
  const tell = (certificate: Certificate, repaired?: Repaired): void =>
    print(
      context,
      json === true
        ? { ...certificate, ...(repaired === undefined ? {} : { repaired }) }
        : certificateText(certificate, repaired).trimEnd(),
    );
  if (repair !== true || found.certificate.verdict !== 'differs') {
    tell(found.certificate);
    return EXIT_OF[found.certificate.verdict];
  }
  if (json !== true) tell(found.certificate);
  const repaired = await app.repair(found, signal);
  const { certificate } = await app.verify(request);
  tell(certificate, repaired);
  return EXIT_OF[certificate.verdict];
}

const SAID: Readonly<Record<Verdict, string>> = { equal: 'equal', differs: 'DIFFERS', unproved: 'not proved' };

/** A certificate for a person: the verdict, what was compared, and what differs. */
export function certificateText(certificate: Certificate, repaired?: Repaired): string {
  const { resource, verdict, mode, requests, compared, differences, sample, listing } = certificate;
  const counts = [
    `${countText(compared.rows + compared.deleted_rows)} rows`,
    `${countText(compared.child_rows)} child rows`,
    `${countText(compared.versions)} versions`,
    `${countText(compared.records)} records of the service`,
  ];
  const lines = [
    ...(repaired === undefined ? [] : [repairText(repaired)]),
    `${resource}: ${SAID[verdict]} (${mode}): ${counts.join(', ')}; ${countText(requests)} requests`,
    ...(sample === null ? [] : [sampleText(sample)]),
    ...(certificate.files === null ? [] : [filesText(certificate.files)]),
    ...(listing?.doubts ?? []).map((doubt) => `  the listing is not proved to be whole: ${doubt}`),
    ...Object.entries(differences.by_kind).map(([kind, count]) => `  ${countText(count)} × ${kind}: ${meaning(kind)}`),
    ...differences.first.map((difference) => `    ${differenceText(difference)}`),
    ...notes(certificate),
    ...certificate.not_compared.map((what) => `  not compared: ${what}`),
  ];
  return lines.map((line) => `${visibleText(line)}\n`).join('');
}

function meaning(kind: string): string {
  return Object.entries(DIFFERENCES).find(([name]) => name === kind)?.[1] ?? kind;
}

function differenceText({ kind, id, fields = [], detail }: Difference): string {
  const parts = [
    kind,
    ...(id === null ? [] : [JSON.stringify(id)]),
    ...(fields.length === 0 ? [] : [fields.join(', ')]),
  ];
  return `${parts.join(' ')}${detail === undefined ? '' : `: ${detail}`}`;
}

function sampleText({
  drawn,
  unit,
  seed,
  at_most_percent,
  confidence_percent,
}: NonNullable<Certificate['sample']>): string {
  const bound =
    at_most_percent === null
      ? 'nothing follows from it'
      : `at most ${at_most_percent} % of all ${unit}s differ, with ${confidence_percent} % confidence`;
  return `  ${countText(drawn)} ${unit}s drawn with --seed ${seed}: ${bound}`;
}

function filesText({ shown, read, differ }: FilesAccount): string {
  const { stored, ...others } = shown;
  const rest = Object.entries(others).filter(([, count]) => count > 0);
  const parts = [`${countText(stored)} here`, ...rest.map(([status, count]) => `${countText(count)} ${status}`)];
  const whole = differ === 0 ? 'all whole' : `${countText(differ)} not whole`;
  return `  files: ${parts.join(', ')}; ${countText(read)} contents read, ${whole}`;
}

function notes({ changed_since, set_aside, not_judged }: Certificate): string[] {
  return [
    ...(changed_since.count > 0
      ? [`  ${countText(changed_since.count)} changed since the copy was brought up to date: the next sync brings them`]
      : []),
    ...(set_aside > 0 ? [`  ${countText(set_aside)} set aside, each with its reason in _sync_rejects`] : []),
    ...(not_judged > 0 ? [`  ${countText(not_judged)} could not be judged: they cannot be read alone`] : []),
  ];
}

function repairText({ rewritten, restored, deleted, held, orphans, left }: Repaired): string {
  const parts = [
    `${countText(rewritten)} made anew from stored bodies`,
    `${countText(restored)} from the service`,
    `${countText(deleted)} deleted`,
    ...(held > 0 ? [`${countText(held)} deletes held: content-sync deletes`] : []),
    ...(orphans > 0 ? [`${countText(orphans)} with child rows of no row`] : []),
    ...(left.length > 0 ? [`${countText(left.length)} left: ${left.join(', ')}`] : []),
  ];
  return `repaired: ${parts.join(', ')}`;
}
