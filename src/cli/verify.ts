// `content-sync verify`: compares the copy with the service, or with its own stored bodies.
import type { Command } from 'commander';
import type { SourceSettings } from '../config/settings.ts';
import { openWarehouseToRead, sharedDatabase } from '../database/databases.ts';
import type { Verdict } from '../database/own-tables.ts';
import { timestampText } from '../model/timestamp-text.ts';
import { visibleText } from '../model/visible-text.ts';
import { formatNumber } from '../observe/format-values.ts';
import { type Difference, DIFFERENCES, type VerifyReport } from '../sync/verify/report.ts';
import {
  type CliContext,
  EXIT_CODES,
  type ExitCode,
  exitCodeOfError,
  printError,
  printReport,
  worstExitCode,
} from './command/context.ts';
import { type ChosenSource, resourceCommand, type SourceOptions, whileOpen, withApp } from './command/sources.ts';

interface VerifyOptions extends SourceOptions {
  internal?: true;
}

const EXIT_CODE_BY_VERDICT: Readonly<Record<Verdict, ExitCode>> = {
  equal: EXIT_CODES.ok,
  differs: EXIT_CODES.partial,
  unproved: EXIT_CODES.failed,
};

/** `content-sync verify`: does the copy equal the service? Exit code 3 if it does not. */
export function verifyCommand(context: CliContext): Command {
  return resourceCommand('verify', context, (chosen, options: VerifyOptions) =>
    verifySource(context, chosen, options),
  ).option('--internal', 'Compare the copy with its own stored bodies and versions; sends no request');
}

async function verifySource(context: CliContext, chosen: ChosenSource, options: VerifyOptions): Promise<ExitCode> {
  const source = await limitShareIfRunning(chosen.source, context);
  return withApp(context, { ...chosen, source }, async (app) => {
    const codes: ExitCode[] = [];
    for (const resource of chosen.resources) {
      try {
        const { signal } = context;
        const report = await app.verify({ resource, mode: options.internal === true ? 'internal' : 'whole', signal });
        printReport(context, report, formatReport(report).trimEnd());
        codes.push(EXIT_CODE_BY_VERDICT[report.verdict]);
      } catch (error) {
        if (context.signal.aborted) throw error;
        await printError(context, error, chosen.source.name);
        codes.push(exitCodeOfError(error));
      }
    }
    return worstExitCode(codes);
  });
}

/** The share of the limit is at least this, even if the other process uses nearly all of it. */
const MIN_SHARE = 0.05;

/**
 * Reduces the share of the rate limit if another process syncs the source: it only uses what that process leaves, because
 * processes on SQLite do not share a budget. Throws `ConfigError` if there is no copy.
 */
async function limitShareIfRunning(source: SourceSettings, { clock }: CliContext): Promise<SourceSettings> {
  return whileOpen(await openWarehouseToRead(source.warehouse, clock), async ({ own }) => {
    if (sharedDatabase(source.warehouse) !== null) return source;
    const leases = own.selectFrom('_sync_leases').select('name');
    const held = await leases.where('expires_at', '>', timestampText(clock.now())).limit(1).execute();
    if (held.length === 0) return source;
    const { share } = source.rate;
    return { ...source, rate: { ...source.rate, share: Math.max(MIN_SHARE, Math.min(share, 1 - share)) } };
  });
}

const VERDICT_TEXTS: Readonly<Record<Verdict, string>> = {
  equal: 'equal',
  differs: 'DIFFERS',
  unproved: 'undecided, because the listing may be incomplete',
};

function formatReport(report: VerifyReport): string {
  const { resource, verdict, mode, requests, compared, differences, listing, remedies } = report;
  const counts = [
    `${formatNumber(compared.rows + compared.deleted_rows)} rows`,
    `${formatNumber(compared.child_rows)} child rows`,
    `${formatNumber(compared.versions)} versions`,
    `${formatNumber(compared.records)} records of the service`,
  ];
  const lines = [
    `${resource}: ${VERDICT_TEXTS[verdict]} (${mode}): ${counts.join(', ')}; ${formatNumber(requests)} requests`,
    ...(listing?.doubts ?? []).map((doubt) => `  the listing may be incomplete: ${doubt}`),
    ...Object.entries(differences.by_kind).map(
      ([kind, count]) => `  ${formatNumber(count)} × ${kind}: ${KINDS[kind]?.text ?? kind}`,
    ),
    ...differences.first.map((difference) => `    ${formatDifference(difference)}`),
    ...remedies.map((command) => `  → ${command}`),
    ...formatNotes(report),
    ...report.not_compared.map((part) => `  not compared: ${part}`),
  ];
  return lines.map((line) => `${visibleText(line)}\n`).join('');
}

const KINDS: Readonly<Record<string, { text: string }>> = DIFFERENCES;

function formatDifference({ kind, id, fields = [], detail }: Difference): string {
  const location = [JSON.stringify(id), ...(fields.length === 0 ? [] : [fields.join(', ')])];
  return `${[kind, ...location].join(' ')}${detail === undefined ? '' : `: ${detail}`}`;
}

function formatNotes({ changed_since, set_aside, not_judged }: VerifyReport): string[] {
  return [
    ...(changed_since.count > 0
      ? [
          `  ${formatNumber(changed_since.count)} changed since the copy was brought up to date: the next sync copies them`,
        ]
      : []),
    ...(set_aside > 0 ? [`  ${formatNumber(set_aside)} rejected, each with its reason in _sync_rejects`] : []),
    ...(not_judged > 0
      ? [`  ${formatNumber(not_judged)} rows not judged: the listing that was read does not hold them`]
      : []),
  ];
}
