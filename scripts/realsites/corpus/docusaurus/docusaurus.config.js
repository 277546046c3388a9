module.exports = { title: 'Ours', url: 'http://docusaurus.example', baseUrl: '/',
  presets: [['classic', { docs: { sidebarPath: './sidebars.js' }, blog: false }]],
  themeConfig: { navbar: { title: 'Ours', items: [{ type: 'docSidebar', sidebarId: 'main', label: 'Docs' }] } } };