import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import { hasBlog } from '../support/corpora.ts';
import { DATABASES, type TestDatabase } from '../support/databases.ts';
import { codeBlocks, readPage } from '../support/readme.ts';
import { asking, type Row } from './ask.ts';
import { blogStory } from './story/story.ts';
import { telling } from './story/told.ts';

/** Rows and hash of the answer to each query, which an independent computation from the source files has confirmed. */
const ANSWERS: Readonly<Record<string, readonly string[]>> = {
  'Posts per month': ['92 082e47d9acf1'],
  'Views by author and by tag': ['202 1b35fc1f2f5a', '123 ff396b6b7afb'],
  'Time from draft to published': ['7 2b1433734627'],
  'Edits after publication': ['8 2f606f19258c'],
  'The blog as of a date': ['3 f0d5b5721b3b'],
  'Deleted posts and the views lost with them': ['4 80507fac012b'],
  'Image weight per post': ['254 777719f2cbea'],
  'Stale posts': ['165 168377b929f5'],
  'Month over month': ['24 0078057f1bfc'],
  Freshness: ['3 b0a5695126fa'],
  'Top of 30 days': ['10 69f8c8767283'],
  'Views by referrer': ['5 425390686bbd'],
  'Long reads': ['6 c3ccb18811d3'],
  'Images that nobody uses': ['254 d3623957010b'],
  'Backlog over time': ['30 20c4dea810b9'],
  'By weekday and hour': ['60 48954f27d5ca'],
  'Tags that were renamed': ['3 634f3e33d8e5'],
  'Words per author': ['202 4e88f14afecf'],
  'Old slugs': ['5 9e872d775530'],
  'What was published at a moment': ['249 71c1a7e05a83'],
};

function questionsFor(database: TestDatabase['name']): { heading: string; query: string }[] {
  const readme = readPage('src/views/README.md');
  return Object.entries(ANSWERS).flatMap(([heading, answers]) => {
    const blocks = codeBlocks(readme.section(heading), 'sql');
    // If there are queries for each database, those for SQLite come first.
    const own = database === 'sqlite' ? blocks.slice(0, answers.length) : blocks.slice(-answers.length);
    return own.map((query) => ({ heading, query }));
  });
}

/** The hash depends neither on the order of rows nor on their columns' order. */
function summaryOf(rows: readonly Row[]): string {
  const texts = rows.map((row) => JSON.stringify(Object.entries(row).toSorted(([a], [b]) => (a < b ? -1 : 1))));
  return `${rows.length} ${createHash('sha256').update(texts.toSorted().join('\n')).digest('hex').slice(0, 12)}`;
}

it('the README asks twenty questions', () => {
  const { section } = readPage('src/views/README.md');
  const headings = [...section('Twenty questions').matchAll(/^### (.*)$/gm)].map(([, heading = '']) => heading);
  expect(headings).toEqual(Object.keys(ANSWERS));
});

it.runIf(hasBlog()).each(DATABASES)('the twenty questions have the right answers on $name', async (database) => {
  const { records, steps } = blogStory(2);
  const story = await telling(database, records);
  for (const step of steps) await story.play(step);
  const questions = questionsFor(database.name);
  const ask = asking(database, story.stage);
  for (const zone of database.name === 'sqlite' ? ['UTC'] : ['America/New_York']) {
    const answers = await ask(
      questions.map(({ query }) => query),
      zone,
    );
    const summaries = answers.map((rows) => (rows instanceof Error ? rows.message : summaryOf(rows)));
    const byHeading = Map.groupBy(summaries.entries(), ([at]) => questions[at]?.heading ?? '');
    const found = [...byHeading].map(([heading, entries]) => [heading, entries.map(([, summary]) => summary)]);
    expect({ zone, answers: Object.fromEntries(found) }).toEqual({ zone, answers: ANSWERS });
  }
});
