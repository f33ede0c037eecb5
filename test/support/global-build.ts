import type { TestProject } from 'vitest/node';
import { builtMain, builtScripts } from './built-main.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** The file that starts the command line. */
    main: string;
    /** The folder in which the scripts stand that tests start. */
    scripts: string;
  }
}

/** Tests start the command line hundreds of times, and scripts of their own: they are built once. */
export default function setup(project: TestProject): void {
  project.provide('main', builtMain());
  project.provide('scripts', builtScripts());
}
