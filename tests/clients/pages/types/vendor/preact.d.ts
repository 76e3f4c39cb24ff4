// Enough of what is vendored for the pages' own code to be checked.

export declare const h: (...args: any[]) => any;
export declare function render(what: any, where: Element): void;
