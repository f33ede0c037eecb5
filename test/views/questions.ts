import { codeBlocks, readPage } from '../support/readme.ts';
import type { Row } from './oracle/rows.ts';
import type { Expected } from './oracle/copy.ts';
import * as history from './oracle/of-history.ts';
import * as posts from './oracle/of-posts.ts';
import * as views from './oracle/of-views.ts';

type Answer = (expected: Expected) => Row[];

/** The questions by their headings in the README, each with what computes the answers to its queries. */
const ANSWERS: Readonly<Record<string, readonly Answer[]>> = {
  'Posts per month': [posts.postsPerMonth],
  'Views by author and by tag': [views.viewsByAuthor, views.viewsByTag],
  'Time from draft to published': [history.fromDraftToPublished],
  'Edits after publication': [history.editsAfterPublication],
  'The blog as of a date': [history.asOfADate],
  'Deleted posts and the views lost with them': [views.deletedWithViews],
  'Image weight per post': [posts.imageWeight],
  'Stale posts': [views.stale],
  'Month over month': [posts.monthOverMonth],
  Freshness: [posts.freshness],
  'Top of 30 days': [views.topOf30Days],
  'Views by referrer': [views.byReferrer],
  'Long reads': [views.longReads],
  'Images that nobody uses': [posts.unusedImages],
  'Backlog over time': [history.backlogOverTime],
  'By weekday and hour': [posts.byWeekdayAndHour],
  'Tags that were renamed': [history.tagRenames],
  'Words per author': [posts.wordsPerAuthor],
  'Old slugs': [history.oldSlugs],
  'What was published at a moment': [history.publishedAtAMoment],
};

/** A question as it stands in the README for one kind of database. */
export interface Question {
  heading: string;
  query: string;
  answer: Answer;
}

/** All of them; one that has two queries for one answer has one for each database, SQLite's first. */
export function questionsFor(database: 'sqlite' | 'postgres'): Question[] {
  const readme = readPage('src/views/README.md');
  return Object.entries(ANSWERS).flatMap(([heading, answers]) => {
    const blocks = codeBlocks(readme.section(heading), 'sql');
    const isShared = blocks.length === answers.length;
    if (!isShared && blocks.length !== 2 * answers.length) throw new Error(`${heading} has ${blocks.length} queries`);
    const own = database === 'sqlite' ? blocks : blocks.slice(-answers.length);
    return answers.map((answer, at) => ({ heading, query: own[at] ?? '', answer }));
  });
}

/** The headings of all questions in the README. */
export function headingsInReadme(): string[] {
  const { section } = readPage('src/views/README.md');
  return [...section('Twenty questions').matchAll(/^### (.*)$/gm)].map(([, heading = '']) => heading);
}

export const HEADINGS = Object.keys(ANSWERS);
